"""``specwatch methods``: the table of a release, and the same as JSON."""

from __future__ import annotations

import importlib.util
import json

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.methods import command
from specwatch.errors import SpecwatchError
from specwatch.vllm.methods import GUIDES


def shown(*words: str, columns: int = 120) -> Result:
    return CliRunner().invoke(command, words, env={"COLUMNS": str(columns)})


def test_the_table_has_a_row_for_every_method_and_a_line_for_those_that_are_missing():
    text = shown("--vllm-version", "0.33.0").output
    for name in ("draft_model", "ngram", "suffix", "eagle3", "mtp", "dflash", "dspark", "custom_class"):
        assert f"\n {name} " in text
    assert "since 0.15.0" in text
    assert "not in 0.33.0: medusa (0.33.0 removed it)" in text
    assert "not in 0.33.0: deepseek_mtp, ernie_mtp, qwen3_next_mtp (0.11.0 calls every built-in prediction" in text


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_nothing_is_cut_off_on_a_narrow_terminal(columns):
    text = shown("--vllm-version", "0.32.0", columns=columns).output
    assert "…" not in text
    assert all(len(line) <= columns for line in text.splitlines())


def test_engines_are_named_where_a_release_has_two():
    assert "since 0.4.1, on V0" in shown("--vllm-version", "0.9.2").output
    assert " on V1" not in shown("--vllm-version", "0.32.0").output


def test_the_json_holds_all_that_is_in_the_table():
    content = json.loads(shown("--vllm-version", "0.32.0", "--json").output)
    assert content["release"] == "0.32.0"
    eagle3 = next(entry for entry in content["methods"] if entry["method"] == "eagle3")
    guide = GUIDES["eagle3"]
    assert eagle3 == {
        "method": "eagle3",
        "since": "0.9.1",
        "engine": "V1",
        "needs": guide.needs,
        "memory": guide.memory,
        "good_for": guide.good_for,
    }
    assert "from 0.33.0" not in str(content["missing"])
    assert content["missing"]["mlp_speculator"].startswith("it only ever ran on the V0 engine")


def test_a_release_that_cannot_speculate_says_which_can():
    problem = shown("--vllm-version", "0.3.3").exception
    assert isinstance(problem, SpecwatchError)
    assert str(problem) == "vLLM 0.3.3 cannot speculate: that began with 0.4.1"
    assert json.loads(shown("--vllm-version", "0.3.3", "--json").output)["methods"] == []


def test_a_newer_release_is_said_to_be_unknown():
    assert (
        "0.40.0 is newer than what specwatch knows: this is what 0.33.0 has" in shown("--vllm-version", "0.40.0").output
    )


def test_without_vllm_a_release_has_to_be_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    problem = shown().exception
    assert isinstance(problem, SpecwatchError)
    assert "name a release with --vllm-version X" in str(problem)
