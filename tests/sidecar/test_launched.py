from __future__ import annotations

import dataclasses
from pathlib import Path

from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.exporter import render
from specwatch.sidecar.launched import Launched
from specwatch.sidecar.service import Service
from specwatch.vllm.launch_record import LaunchRecord, write

RECORD = LaunchRecord("0.32.0", 1.0, target="big", method="draft_model", draft="small", num_speculative_tokens=5)


def test_method_and_k_of_the_launch_are_exported(tmp_path: Path):
    write(tmp_path / "launch.json", RECORD)
    page = render(Service([], launched=Launched(tmp_path / "launch.json")), AlertBook()).decode()
    labels = 'draft="small",method="draft_model",num_speculative_tokens="5",release="0.32.0",served="big"'
    assert f"specwatch_launch_info{{{labels}}} 1.0" in page
    assert "specwatch_launch_restarts_total 0.0" in page


def test_a_restart_shows_when_the_launcher_rewrites_its_record(tmp_path: Path):
    path = tmp_path / "launch.json"
    write(path, RECORD)
    launched = Launched(path)
    write(path, dataclasses.replace(RECORD, restarts=2))
    assert launched.record().restarts == 2


def test_what_was_read_stands_when_the_record_is_gone(tmp_path: Path):
    path = tmp_path / "launch.json"
    write(path, RECORD)
    launched = Launched(path)
    path.unlink()
    assert launched.record() == RECORD


def test_a_sidecar_without_a_launch_says_nothing_of_one():
    assert "specwatch_launch" not in render(Service([]), AlertBook()).decode()
