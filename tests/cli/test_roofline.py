"""``specwatch roofline``: from numbers, a folder or a config.json to a table, JSON or one clear message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.roofline import command
from specwatch.errors import InputError
from specwatch.signals.gpus import GPUS
from tests.support.models import LLAMA_1B, LLAMA_70B, model

A100 = ("--gpu", "A100 SXM 80GB")


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def ran(*words: str | Path) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, result.output or result.exception
    return result.output


def as_json(*words: str | Path) -> dict[str, Any]:
    return dict(json.loads(ran(*words, "--json")))


def refusal(*words: str | Path) -> str:
    result = invoke(*words)
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


@pytest.fixture
def llama(tmp_path: Path) -> str:
    return model(tmp_path / "llama-70b", LLAMA_70B)


def test_70b_on_an_a100_gives_the_known_figure():
    assert "at least 68.7 ms: 14.6 tokens/s" in ran("--parameters", "70B", *A100)


def test_the_table_fits_a_terminal_of_eighty_columns_with_nothing_cut_off():
    shown = ran("--parameters", "70B", *A100, "--draft-parameters", "1B", "--k", "15")
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines() if "68.66 ms" in line) <= 80


def test_a_measured_time_is_held_against_the_bound():
    assert "69% of the bound" in ran("--parameters", "70B", *A100, "--measured-tpot", "0.1")
    assert "2.29 times as fast as plain decoding can be" in ran("--parameters", "70B", *A100, "--measured-tpot", "0.03")


def test_a_draft_gives_c_and_the_acceptance_that_pays(llama, tmp_path):
    draft = model(tmp_path / "llama-1b", LLAMA_1B)
    content = as_json(llama, "--draft", draft, "--gpu", "H100 SXM", "-tp", "4", "--batch", "1", "--batch", "256")
    small, large = content["batches"]
    # 1.236 of 69.5 billion weights that a step reads: the draft's table of words is tied, the target's is not.
    assert small["c"] == pytest.approx(1.236 / 69.5, rel=1e-3)
    assert small["v"] == 1.0
    assert small["break_even_acceptance"] == pytest.approx(small["c"])
    assert large["v"] > 3
    assert large["break_even_acceptance"] > 0.4


def test_a_folder_and_its_config_json_are_the_same_model(llama):
    folder, file = (as_json(name, *A100) for name in (llama, Path(llama, "config.json")))
    assert folder["batches"] == file["batches"]


def test_what_does_not_fit_is_said(llama):
    assert "do not fit" in ran(llama, *A100)
    assert "such sequences fit" in ran(llama, *A100, "-tp", "4", "--context", "8192")


def test_own_numbers_stand_for_a_gpu(llama):
    assert as_json(llama, "--bandwidth", "2039", "--flops", "312", "--context", "100")["most_sequences"] is None
    content = as_json("--parameters", "70B", "--bandwidth", "2039", "--flops", "312")
    assert content["batches"][0]["step_seconds"] == pytest.approx(0.06866, abs=1e-5)
    assert content["source"] == "given"


def test_own_numbers_replace_those_of_the_table():
    content = as_json("--parameters", "70B", *A100, "--bandwidth", "1000")
    assert content["batches"][0]["step_seconds"] == pytest.approx(0.140)
    assert "bandwidth given" in content["source"]


def test_the_table_of_gpus_names_its_sources():
    listed = json.loads(ran("--list-gpus", "--json"))
    assert len(listed) == len(GPUS)
    assert "H200" in ran("--list-gpus")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*A100,), "give either MODEL or --parameters"),
        (("--parameters", "70B"), "which GPU"),
        (("--parameters", "70B", "--bandwidth", "2000"), "--bandwidth and --flops"),
        (("--parameters", "70B", "--gpu", "H100"), "which one"),
        (("no-such/model", *A100), "hf download no-such/model"),
        (("--parameters", "7B", "--active-parameters", "9B", *A100), "a part of all"),
        (("--parameters", "7B", "--draft", "x", "--draft-parameters", "1B", *A100), "--draft-parameters"),
        (("--parameters", "7B", *A100, "--memory", "lots"), "lots"),
    ],
)
def test_what_is_missing_or_wrong_is_named(words, told, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert told in refusal(*words)


@pytest.mark.parametrize("count", ["70X", "-5B", "0", "1e30", "many"])
def test_a_count_that_is_none_is_refused(count):
    result = invoke("--parameters", count, *A100)
    assert result.exit_code == 2
    assert "70B, 137M or 7e9" in result.output


@pytest.mark.parametrize("content", ["", "[]", "{", '{"model_type": "llama"}'])
def test_a_damaged_configuration_is_named(content, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(content)
    assert str(file) in refusal(file, *A100)
