"""docs/lint.md against the code: what it lists, and what it shows."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from specwatch.lint.findings import CODES
from specwatch.vllm.features import NEWEST, OLDEST
from tests.support.lint import codes
from tests.support.programs import ROOT

PAGE = (ROOT / "docs" / "lint.md").read_text()
EXAMPLES = re.findall(r"^### (SW\d{3}).*?```(?:promql|yaml|json)\n# found\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)
"""Code and text of each example."""


def rule_of(example: str) -> str:
    """A file with an example in it: panels of a dashboard, PromQL, or keys of a rule."""
    if example.startswith("{"):
        panels = re.sub(r"\}\n\{", "},\n{", example.strip())
        return f'{{"title": "A dashboard", "panels": [{panels}]}}'
    keys = yaml.safe_load(example) if re.match(r"\w+:\s", example) else {"expr": re.sub(r"    # .*", "", example)}
    rule = {"alert": "A", "expr": "vllm:num_requests_waiting > 9", **keys}
    return json.dumps({"groups": [{"name": "g", "rules": [rule]}]})


def test_the_codes_are_listed_as_they_are():
    rows = [f"| {code.id} | {code.name} | {code.level.value} | {code.title} |" for code in CODES]
    assert "\n".join(rows) in PAGE


def test_every_code_has_its_reason_and_an_example():
    words = " ".join(PAGE.split())
    assert re.findall(r"^### (.*)", PAGE, re.MULTILINE) == [f"{code.id} {code.name}" for code in CODES]
    assert [code.id for code in CODES if code.why not in words] == []
    assert [code for code, _ in EXAMPLES] == [code.id for code in CODES]


def test_the_releases_that_are_known_are_the_tables():
    assert f"known by release from {OLDEST} to {NEWEST}" in PAGE


@pytest.mark.parametrize(("code", "example"), [pytest.param(*pair, id=pair[0]) for pair in EXAMPLES])
def test_an_example_is_found_and_what_stands_there_instead_is_not(code: str, example: str):
    wrong, _, right = example.partition("# instead\n")
    release = re.search(r"# on (\S+)", wrong)
    on = release[1] if release else str(NEWEST)
    assert code in codes(rule_of(wrong), release=on)
    assert not right or code not in codes(rule_of(right), release=on)
