"""What people, scripts and code hosts read of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from specwatch.lint.findings import CODES
from specwatch.lint.report import as_json, as_sarif, as_text, summary
from specwatch.lint.run import Outcome, run
from specwatch.vllm.features import NEWEST
from tests.support.lint import MISTAKES, alert, findings

FILES = [MISTAKES / "mistakes.rules.yml", MISTAKES / "mistakes.dashboard.json", MISTAKES / "mistakes.alertmanager.yml"]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run(FILES, NEWEST)


def test_a_finding_is_a_line_that_editors_jump_to_and_two_that_help(outcome: Outcome):
    lines = as_text(replace(outcome, findings=outcome.findings[:1])).splitlines()
    assert lines[0].startswith(f"{FILES[0]}:7:15: error SW001 vllm:spec_decode_draft_acceptance_rate is gone")
    assert lines[1] == "    in group names / alert TheArticlesOwnRule"
    assert lines[2].startswith("    instead: sum by (")
    assert lines[3] == "found 1 error in 3 files, for vLLM 0.33.0"


def test_the_summary_counts(outcome: Outcome):
    assert summary(replace(outcome, findings=(), files=("a",))) == "found nothing in 1 file, for vLLM 0.33.0"
    assert (
        summary(replace(outcome, findings=(), mended=2)) == "mended 2 names; found nothing in 3 files, for vLLM 0.33.0"
    )
    assert summary(outcome).endswith("in 3 files, for vLLM 0.33.0; --fix mends 4 names")


def test_who_looked_at_nothing_does_not_say_that_nothing_was_found(outcome: Outcome):
    assert summary(replace(outcome, findings=(), files=())) == "checked no file, for vLLM 0.33.0"


def test_nothing_of_a_file_reaches_the_terminal_as_a_command():
    text = alert("vllm:gpu_cache_usage_perc > 0.9").replace("MadeUp", '"\\e]0;owned\\a \\u202e é"')
    found = tuple(findings(text))
    shown = as_text(Outcome(NEWEST, found, ("a.yml",)))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "é" in shown


def test_json_holds_what_the_text_says(outcome: Outcome):
    held = as_json(outcome)
    assert held["vllm_version"] == "0.33.0"
    assert [entry["code"] for entry in held["findings"]] == [finding.code.id for finding in outcome.findings]
    first = held["findings"][0]
    assert (first["line"], first["column"], first["level"], first["fixable"]) == (7, 15, "error", False)
    assert set(first) >= {"file", "path", "message", "instead", "name"}


def test_sarif_has_the_structure_that_its_standard_asks_for(outcome: Outcome):
    """What section 3 of SARIF 2.1.0 requires of the objects that are written."""
    log = as_sarif(replace(outcome, problems=("a.yml: no such file",)))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (ran,) = log["runs"]
    driver = ran["tool"]["driver"]
    assert driver["name"] == "specwatch"
    assert ran["columnKind"] == "unicodeCodePoints"
    assert [entry["id"] for entry in driver["rules"]] == [code.id for code in CODES]
    for entry in driver["rules"]:
        assert entry["shortDescription"]["text"]
        assert entry["fullDescription"]["text"]
        assert entry["help"]["text"]
        assert entry["defaultConfiguration"]["level"] in ("error", "warning", "note")
    (invocation,) = ran["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "a.yml: no such file"
    assert len(ran["results"]) == len(outcome.findings)
    for result in ran["results"]:
        check_result(result, driver["rules"])


def check_result(result: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] == rules[result["ruleIndex"]]["defaultConfiguration"]["level"]
    assert result["message"]["text"]
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    region = physical["region"]
    file = Path(unquote(physical["artifactLocation"]["uri"].removeprefix("file://")))
    lines = file.read_text().splitlines()
    assert 1 <= region["startLine"] <= len(lines)
    assert 1 <= region["startColumn"] <= len(lines[region["startLine"] - 1])
    for fix in result.get("fixes", []):
        (change,) = fix["artifactChanges"]
        assert change["artifactLocation"] == physical["artifactLocation"]
        for replacement in change["replacements"]:
            start, length = (replacement["deletedRegion"][key] for key in ("charOffset", "charLength"))
            assert file.read_text()[start : start + length].startswith("vllm:")
            assert replacement["insertedContent"]["text"].startswith("vllm:")


def test_uris_of_sarif_are_relative_where_the_file_was_named_so():
    found = tuple(findings(alert("vllm:gpu_cache_usage_perc > 0.9")))
    named = tuple(replace(finding, file="my rules/ä.yml") for finding in found)
    result = as_sarif(Outcome(NEWEST, named, ()))["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20rules/%C3%A4.yml"
