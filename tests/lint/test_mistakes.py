"""Files that hold every mistake, and this project's own, which hold none."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.lint.checks import lint
from specwatch.lint.findings import CODES, Finding
from specwatch.lint.fixes import mended
from specwatch.lint.reading import content, sources
from specwatch.lint.report import as_text
from specwatch.lint.run import Outcome, run
from specwatch.vllm.features import NEWEST
from specwatch.vllm.releases import Release
from tests.support.lint import CODE, MISTAKES
from tests.support.programs import ROOT

RULES = {"mistakes.rules.yml": str(NEWEST), "mistakes-0.8.5.rules.yml": "0.8.5"}


def found_in(*names: str, release: str = str(NEWEST)) -> list[Finding]:
    texts = [(name, content(MISTAKES / name)) for name in names]
    return lint([source for name, text in texts for source in sources(name, text)], Release.parse(release))


def by_rule(findings: list[Finding]) -> dict[str, list[str]]:
    """Sorted codes by the rule's name, the path's last word."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        found.setdefault(finding.path.split()[-1], []).append(finding.code.id)
    return {name: sorted(codes) for name, codes in found.items()}


@pytest.mark.parametrize(("name", "release"), RULES.items())
def test_every_mistake_in_rules_is_found_and_nothing_else(name: str, release: str):
    marked = re.findall(r"- (?:alert|record): (\S+)(.*)", content(MISTAKES / name))
    expected = {rule: sorted(CODE.findall(rest)) for rule, rest in marked if CODE.search(rest)}
    assert by_rule(found_in(name, release=release)) == expected
    assert len(marked) > len(expected)


def test_every_mistake_in_a_dashboard_is_found_and_nothing_else():
    name = "mistakes.dashboard.json"
    expected = CODE.findall(content(MISTAKES / name))
    found = found_in(name)
    assert [finding.code.id for finding in found] == expected
    assert all(finding.code.id in finding.path for finding in found)


def test_every_mistake_in_an_alertmanager_configuration_is_found_beside_its_rules():
    name = "mistakes.alertmanager.yml"
    lines = enumerate(content(MISTAKES / name).splitlines(), 1)
    expected = {(number, code) for number, line in lines for code in CODE.findall(line)}
    found = [finding for finding in found_in(name, "mistakes.rules.yml") if finding.file == name]
    assert {(finding.line, finding.code.id) for finding in found} == expected


def test_the_files_of_mistakes_hold_every_code():
    held = {code for path in MISTAKES.iterdir() for code in CODE.findall(path.read_text())}
    assert held == {code.id for code in CODES}


@pytest.mark.parametrize("release", [str(NEWEST), "0.24.0", "0.15.0", "0.10.2", "0.9.2", "0.8.5"])
def test_this_projects_own_rules_routes_and_dashboards_hold_no_mistake(release: str):
    outcome = run([ROOT / "alerts", ROOT / "dashboards"], Release.parse(release))
    assert outcome.findings == ()
    assert outcome.problems == ()
    names = {Path(file).name for file in outcome.files}
    assert {"alertmanager.yml", "specwatch.rules.yml", "specwatch-fleet.json"} <= names


def test_the_articles_own_rule_is_dead_on_current_releases_and_the_finding_says_what_replaces_it():
    first, second = found_in("mistakes.rules.yml")[:2]
    assert (first.code.id, first.line, first.column) == ("SW001", 7, 15)
    assert "vllm:spec_decode_draft_acceptance_rate is gone since vLLM 0.10.0" in first.message
    assert re.search(r"rate\(vllm:spec_decode_num_accepted_tokens_total.* / .*num_draft_tokens_total", first.instead)
    assert second.code.id == "SW202"


def test_what_a_finding_on_the_articles_rule_proposes_is_right():
    """The expression that it gives, put in the rule's place, has no mistake but that it is blind to K."""
    instead = found_in("mistakes.rules.yml")[0].instead
    text = json.dumps({"groups": [{"name": "g", "rules": [{"alert": "A", "expr": f"{instead} < 0.6"}]}]})
    found = lint(sources("a.json", text), Release.parse(str(NEWEST)))
    assert Counter(finding.code.id for finding in found) == {"SW202": 1}


SEEDS = [path.read_text() for path in sorted(MISTAKES.iterdir())]
SCRAPS = st.sampled_from(
    [*"\"'{}[]()|:,#$@\\\n\x1b\u202e🙂", "  ", "- ", "${", "}}", "{{", "*a", "&a ", "<<: ", "[5m]", "or", "http://["]
)
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), SCRAPS), min_size=1, max_size=9)
Changes = list[tuple[float, int, str]]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SEEDS), CHANGES, st.sampled_from([str(NEWEST), "0.8.5", "0.5.0"]))
def test_whatever_is_done_to_a_file_it_is_judged_or_refused(text: str, changes: Changes, release: str):
    for where, length, scrap in changes:
        at = int(where * len(text))
        text = text[:at] + scrap + text[at + length :]
    try:
        held = sources("a.yml", text)
    except InputError:
        return
    found = lint(held, Release.parse(release))
    assert as_text(Outcome(NEWEST, tuple(found), ("a.yml",)))
    sources("a.yml", mended(text, {fix for finding in found for fix in finding.fixes}))
