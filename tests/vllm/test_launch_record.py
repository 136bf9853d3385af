"""The file that tells the sidecar what was launched."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.vllm.launch_record import LaunchRecord, read, record_of, write
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Speculation
from tests.support.checkpoints import safetensors

FULL = LaunchRecord(
    release="0.32.0",
    started_at=1764435600.25,
    target="T",
    method="draft_model",
    draft="D",
    num_speculative_tokens=5,
    schedule=((1, 16, 5), (17, 17, 0)),
    target_parameters=70_000_000_000,
    draft_parameters=1_000_000_000,
    restarts=2,
)


@pytest.mark.parametrize("record", [FULL, LaunchRecord("0.32.0", 0.0)])
def test_a_record_is_read_back_as_it_was_written(tmp_path: Path, record):
    write(tmp_path / "launch.json", record)
    assert read(tmp_path / "launch.json") == record


def test_a_record_is_for_its_owner_only_and_leaves_nothing_beside_it(tmp_path: Path):
    file = tmp_path / "launch.json"
    file.write_text("an older record")
    write(file, FULL)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["launch.json"]


@pytest.mark.parametrize(
    ("method", "target", "draft", "ratio"),
    [
        ("draft_model", 70, 1, 1 / 70),
        ("eagle3", 8, 2, 0.25),
        ("draft_model", 70, None, None),
        ("draft_model", None, 1, None),
        ("draft_model", 0, 1, None),
        ("ngram", 70, None, 0.0),
        ("suffix", None, None, 0.0),
        ("ngram_gpu", None, None, 0.0),
        # One pass for all tokens, or weights shared with the target: size says nothing.
        ("medusa", 70, 1, None),
        ("mtp", 70, 70, None),
        (None, 70, None, None),
    ],
)
def test_the_draft_costs_what_its_size_is_to_the_targets(method, target, draft, ratio):
    record = LaunchRecord("0.32.0", 0.0, method=method, target_parameters=target, draft_parameters=draft)
    assert record.draft_cost_ratio == ratio


def test_a_start_is_recorded_with_the_sizes_of_local_models(tmp_path: Path):
    for name, rows in (("target", 100), ("draft", 10)):
        (tmp_path / name).mkdir()
        safetensors(tmp_path / name / "model.safetensors", {"weight": [rows, 4]})
    schedule = {"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 5, 0]]}
    plan = Speculation("draft_model", str(tmp_path / "draft"), 3, schedule)
    record = record_of(Release.parse("0.32.0+cpu"), str(tmp_path / "target"), plan, 1.5)
    assert record == LaunchRecord(
        release="0.32.0",
        started_at=1.5,
        target=str(tmp_path / "target"),
        method="draft_model",
        draft=str(tmp_path / "draft"),
        num_speculative_tokens=3,
        schedule=((1, 4, 3), (5, 5, 0)),
        target_parameters=400,
        draft_parameters=40,
    )
    assert record.draft_cost_ratio == 0.1


def test_a_start_without_speculation_is_recorded_as_such():
    record = record_of(Release.parse("0.32.0"), "org/model", None, 1.5)
    assert record == LaunchRecord("0.32.0", 1.5, target="org/model")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        ("{", "no JSON"),
        ("[" * 60_000, "no JSON"),
        ("[]", "a JSON object is needed"),
        ("{}", "format None, this specwatch reads 1"),
        ({"format": 2}, "format 2, this specwatch reads 1"),
        ({"release": 3}, "release: str is needed, not 3"),
        ({"release": None}, "release is missing"),
        ({"started_at": "now"}, "started_at: seconds since 1970 are needed"),
        ({"num_speculative_tokens": "5"}, "num_speculative_tokens: int is needed"),
        ({"num_speculative_tokens": True}, "num_speculative_tokens: int is needed"),
        ({"schedule": [[1, 2]]}, "schedule: a list of three whole numbers each is needed"),
        ({"schedule": "all"}, "schedule: a list of three whole numbers each is needed"),
    ],
)
def test_a_file_that_is_no_record_is_refused_by_its_path(tmp_path: Path, content, message):
    file = tmp_path / "launch.json"
    if isinstance(content, dict):
        file.write_text(json.dumps({"format": 1, "release": "0.32.0", "started_at": 1.0} | content))
    elif content is not None:
        file.write_text(content)
    with pytest.raises(InputError) as refusal:
        read(file)
    assert message in str(refusal.value)
    assert str(file) in str(refusal.value)


def test_a_record_of_a_later_specwatch_with_more_in_it_is_read(tmp_path: Path):
    write(tmp_path / "launch.json", FULL)
    content = json.loads((tmp_path / "launch.json").read_text()) | {"something_new": 3}
    (tmp_path / "launch.json").write_text(json.dumps(content))
    assert read(tmp_path / "launch.json") == FULL
