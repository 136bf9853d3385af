"""Linting a text as if it stood in a file, and files that hold every mistake."""

from __future__ import annotations

import re
from pathlib import Path

from specwatch.lint.checks import lint
from specwatch.lint.findings import Finding
from specwatch.lint.reading import sources
from specwatch.vllm.features import NEWEST
from specwatch.vllm.releases import Release

MISTAKES = Path(__file__).parent.parent / "fixtures" / "lint"
CODE = re.compile(r"\bSW\d{3}\b")


def findings(*texts: str, release: str = str(NEWEST)) -> list[Finding]:
    """What is found in texts that are linted together; the files are called 0.yml, 1.yml and so on."""
    held = [source for number, text in enumerate(texts) for source in sources(f"{number}.yml", text)]
    return lint(held, Release.parse(release))


def codes(*texts: str, release: str = str(NEWEST)) -> list[str]:
    """The codes found, in the order of their places."""
    return [finding.code.id for finding in findings(*texts, release=release)]


def rule(expression: str, name: str = "record: job:made:up", more: str = "") -> str:
    """A rule file with one rule; ``more`` is YAML below the rule, indented by eight."""
    body = expression.replace("'", "''")
    return f"groups:\n  - name: g\n    rules:\n      - {name}\n        expr: '{body}'\n{more}"


def alert(expression: str, more: str = "") -> str:
    """A rule file with one alert."""
    return rule(expression, "alert: MadeUp", more)
