"""The schedule of a calibration, and which plan it was measured for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.vllm.calibration import SIZE_LIMIT, Calibration, Crossover, read
from specwatch.vllm.schedule import SCHEDULE
from specwatch.vllm.speculation import Speculation
from tests.support.programs import ROOT

CONTENT: dict[str, Any] = {
    "format": 1,
    "target": "T",
    "method": "draft_model",
    "draft": "D",
    "recommended": {"num_speculative_tokens": 5, "schedule": [[1, 24, 5], [25, 25, 0]]},
}
PLAN = Speculation("draft_model", "D", 5)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(CONTENT))
    return path


def refusal(file: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(file)
    return str(caught.value)


def test_a_calibration_gives_its_schedule(file):
    found = read(file)
    assert found == Calibration(file, "T", "draft_model", "D", 5, ((1, 24, 5), (25, 25, 0)))
    assert found.applied(PLAN) == Speculation("draft_model", "D", 5, {SCHEDULE: [[1, 24, 5], [25, 25, 0]]})


def test_a_calibration_keeps_what_was_measured(file):
    costs = [{"num_speculative_tokens": k, "concurrency": 1.0} for k in (5, 3, 3)]
    crossovers = [
        {"num_speculative_tokens": 5, "domain": "json", "concurrency": None},
        {"num_speculative_tokens": 5, "domain": "es", "concurrency": 4},
    ]
    file.write_text(changed(costs=costs, crossovers=crossovers, gpu="H100"))
    found = read(file)
    assert (found.measured, found.costs, found.gpu) == ((3, 5), tuple(costs), "H100")
    assert found.crossovers == (Crossover(5, "json", None), Crossover(5, "es", 4))
    found.refuse_another("T", Speculation("draft_model", "D", 3))
    with pytest.raises(InputError, match="num_speculative_tokens 3 and 5, not 4"):
        found.refuse_another("T", Speculation("draft_model", "D", 4))


def test_a_calibration_that_does_not_say_its_method_fits_no_launch(file):
    file.write_text(changed(method=..., draft=...))
    with pytest.raises(InputError, match="it does not say how the measured server drafts"):
        read(file).refuse_another("T", PLAN)


def test_another_gpu_is_refused_where_both_are_known(file):
    file.write_text(changed(gpu="H100"))
    with pytest.raises(InputError, match="gpu H100, not A100"):
        read(file).refuse_another("T", PLAN, "A100")
    read(file).refuse_another("T", PLAN, "H100")
    read(file).refuse_another("T", PLAN, None)
    file.write_text(changed())
    read(file).refuse_another("T", PLAN, "A100")


@pytest.mark.parametrize(
    ("advice", "problem"),
    [
        (..., "it recommends nothing: the measurement did not end"),
        (
            {"num_speculative_tokens": 0, "schedule": [[1, 1, 0]]},
            "it recommends no speculation at any batch size: start without",
        ),
    ],
)
def test_what_recommends_no_drafts_can_be_read_and_not_launched(file, advice, problem):
    file.write_text(changed(recommended=advice))
    found = read(file)
    with pytest.raises(InputError, match=problem):
        found.applied(PLAN)


def test_a_plan_with_another_k_than_the_recommended_is_refused(file):
    with pytest.raises(InputError, match="it recommends num_speculative_tokens 5, not 3: leave it out"):
        read(file).applied(Speculation("draft_model", "D", 3))


def test_a_plan_without_k_gets_the_recommended_one(file):
    assert read(file).applied(Speculation(None, "D")).num_speculative_tokens == 5


def test_the_example_of_the_documentation_is_a_calibration(tmp_path):
    text = (ROOT / "docs" / "calibration-format.md").read_text()
    (example,) = re.findall(r"^```json\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "example.json").write_text(example)
    assert read(tmp_path / "example.json").schedule == ((1, 24, 5), (25, 64, 3), (65, 65, 0))


@pytest.mark.parametrize(
    ("target", "plan", "difference"),
    [
        ("U", PLAN, "target T, not U"),
        ("T", Speculation("eagle3", "D", 5), "method draft_model, not eagle3"),
        ("T", Speculation("draft_model", "E", 5), "draft D, not E"),
        ("T", Speculation("draft_model", "D", 3), "num_speculative_tokens 5, not 3"),
        (None, Speculation("ngram", None, 5), "target T, not None and method draft_model, not ngram and draft D"),
    ],
)
def test_another_plan_is_refused_with_the_difference_named(file, target, plan, difference):
    with pytest.raises(InputError, match="measure this plan") as caught:
        read(file).refuse_another(target, plan)
    assert difference in str(caught.value)


def test_the_plan_that_was_measured_passes(file):
    read(file).refuse_another("T/", PLAN)


@pytest.mark.parametrize("options", [{SCHEDULE: [[1, 1, 1]]}, {}])
def test_a_plan_that_limits_itself_is_refused(file, options):
    plan = Speculation("draft_model", "D", 5, options, None if options else 32)
    with pytest.raises(InputError, match="says itself when drafting ends"):
        read(file).applied(plan)


def changed(**entries: Any) -> str:
    return json.dumps({key: value for key, value in (CONTENT | entries).items() if value is not ...})


def advised(**entries: Any) -> str:
    return changed(recommended=CONTENT["recommended"] | entries)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "no JSON: "),
        ("[1]", "a JSON object of at most 16 MiB is needed"),
        ("[" * 100_000, "no JSON: "),
        (changed(format=2), "format 2, this specwatch reads 1"),
        (changed(format=...), "format None, this specwatch reads 1"),
        (changed(target=...), "target: a name is needed"),
        (changed(gpu=3), "gpu: a name is needed"),
        (changed(costs={}), "costs: a list of objects is needed"),
        (changed(costs=[{"num_speculative_tokens": 0}]), "a whole number from 1 on is needed, not 0"),
        (changed(crossovers=[{"num_speculative_tokens": 5, "domain": 1}]), "domain: a name is needed"),
        (changed(method=3), "method: a name is needed"),
        (changed(draft=""), "draft: a name is needed"),
        (changed(recommended=[]), "recommended: num_speculative_tokens and a schedule are needed"),
        (advised(schedule=[[2, 4, 5]]), "it must start at batch size 1, not 2"),
        (advised(schedule=None), "a list of [first batch size, last batch size, K] is needed"),
        (advised(num_speculative_tokens=3), "the schedule's largest K, 5, is needed"),
        (advised(num_speculative_tokens="5"), "the schedule's largest K, 5, is needed"),
    ],
)
def test_a_file_that_is_no_calibration_is_one_message_with_its_place(file, text, problem):
    file.write_text(text)
    said = refusal(file)
    assert said.startswith(f"--calibration {file}: ")
    assert problem in said
    assert "\n" not in said


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    assert refusal(tmp_path / "none.json") == f"--calibration {tmp_path}/none.json: no such file or directory"
    assert refusal(tmp_path) == f"--calibration {tmp_path}: is a directory"


def test_an_endless_file_is_not_read_to_its_end(file):
    file.write_text(" " * (SIZE_LIMIT + 1))
    assert "at most 16 MiB" in refusal(file)
