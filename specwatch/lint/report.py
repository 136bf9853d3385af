"""A run's outcome as text, as JSON and as SARIF 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from specwatch import __version__
from specwatch.lint.findings import CODES, Finding, Fix, Level
from specwatch.lint.run import Outcome

LONGEST = 300
"""Characters of a message or a path that is shown on a terminal."""


def as_text(outcome: Outcome) -> str:
    """A line for each finding, two below it, and a summary."""
    lines = [line for finding in outcome.findings for line in _lines(finding)]
    return "\n".join([*lines, summary(outcome)])


def _lines(finding: Finding) -> list[str]:
    code = finding.code
    place = f"{shown(finding.file)}:{finding.line}:{finding.column}"
    lines = [f"{place}: {code.level.value} {code.id} {shown(finding.message)}"]
    if finding.path:
        lines.append(f"    in {shown(finding.path)}")
    return [*lines, f"    instead: {shown(finding.instead)}"]


def shown(text: str) -> str:
    """A text of a stranger's file on one line, without what a terminal takes for commands."""
    clean = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return clean if len(clean) <= LONGEST else f"{clean[: LONGEST - 1]}…"


def summary(outcome: Outcome) -> str:
    """What was found in how many files, for which release; without a file nothing was looked for."""
    if not outcome.files:
        return f"checked no file, for vLLM {outcome.release}"
    counts = Counter(finding.code.level for finding in outcome.findings)
    found = ", ".join(_counted(counts[level], level.value) for level in Level if counts[level]) or "nothing"
    fixable = len({fix for finding in outcome.findings for fix in finding.fixes})
    files = _counted(len(outcome.files), "file")
    mended = f"mended {_counted(outcome.mended, 'name')}; " if outcome.mended else ""
    hint = f"; --fix mends {_counted(fixable, 'name')}" if fixable else ""
    return f"{mended}found {found} in {files}, for vLLM {outcome.release}{hint}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Everything that is known of the findings, for scripts."""
    return {
        "vllm_version": str(outcome.release),
        "files": list(outcome.files),
        "problems": list(outcome.problems),
        "mended": outcome.mended,
        "findings": [
            {
                "code": finding.code.id,
                "name": finding.code.name,
                "level": finding.code.level.value,
                "file": finding.file,
                "line": finding.line,
                "column": finding.column,
                "path": finding.path,
                "message": finding.message,
                "instead": finding.instead,
                "fixable": bool(finding.fixes),
            }
            for finding in outcome.findings
        ],
    }


def as_sarif(outcome: Outcome) -> dict[str, Any]:
    """One run of SARIF 2.1.0."""
    numbers = {code: number for number, code in enumerate(CODES)}
    driver = {
        "name": "specwatch",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [
            {
                "id": code.id,
                "name": code.name,
                "shortDescription": {"text": code.title},
                "fullDescription": {"text": f"{code.title}. {code.why}"},
                "help": {"text": code.why},
                "defaultConfiguration": {"level": code.level.value},
            }
            for code in CODES
        ],
    }
    invocation = {
        "executionSuccessful": not outcome.problems,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": text}} for text in outcome.problems],
    }
    results = [_result(finding, numbers[finding.code]) for finding in outcome.findings]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [invocation],
                "results": results,
            }
        ],
    }


def _result(finding: Finding, number: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(finding.file)},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }
    }
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    result: dict[str, Any] = {
        "ruleId": finding.code.id,
        "ruleIndex": number,
        "level": finding.code.level.value,
        "message": {"text": f"{finding.message}. Instead: {finding.instead}"},
        "locations": [location],
    }
    if finding.fixes:
        changes = {
            "artifactLocation": {"uri": _uri(finding.file)},
            "replacements": [_replacement(fix) for fix in finding.fixes],
        }
        result["fixes"] = [{"description": {"text": "Write the name that exists"}, "artifactChanges": [changes]}]
    return result


def _replacement(fix: Fix) -> dict[str, Any]:
    region = {"charOffset": fix.start, "charLength": fix.end - fix.start}
    return {"deletedRegion": region, "insertedContent": {"text": fix.new}}


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
