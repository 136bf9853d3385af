"""The supervisor with real processes: a stand-in for vLLM, its workers, a sidecar, and signals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import fake_vllm
from tests.support.programs import ROOT

PATIENCE = 60.0
"""Seconds after which something that should happen is taken as not happening."""


class Run:
    """A supervisor at work on the stand-in, its output in files."""

    def __init__(self, folder: Path, port: int, sidecar: list[str] | None, ready_timeout: float, **plan: Any) -> None:
        self.out, self.err = folder / "out", folder / "err"
        command = [sys.executable, "-m", fake_vllm.__name__, "--port", str(port)]
        job: dict[str, Any] = {"command": command, "port": port, "ready_timeout": ready_timeout}
        if sidecar is not None:
            job["sidecar"] = sidecar
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.supervise", json.dumps(job)],
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env=os.environ | {"FAKE_VLLM": json.dumps(plan), "MARK": str(folder)},
            )
        self.mark = f"MARK={folder}".encode()

    def wait_for(self, text: str) -> None:
        """Wait until the text is in the output."""
        ended = False
        while not (text in self.output() or ended):
            ended = self.process.poll() is not None
            time.sleep(0.05)
        assert text in self.output()

    def output(self) -> str:
        """All that was printed so far."""
        return self.out.read_text() + self.err.read_text()

    def said(self) -> list[str]:
        """The launcher's own lines."""
        return [line for line in self.err.read_text().splitlines() if line.startswith("specwatch │")]

    def end(self) -> int:
        """Exit code, once it has ended."""
        return self.process.wait(PATIENCE)

    def left(self) -> list[int]:
        """Ids of all processes that come from this run, however far down."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def kill_all(self) -> None:
        """End what a failed test left."""
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def eventually(condition: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_one(sidecar: list[str] | None = None, ready_timeout: float = PATIENCE, **plan: Any) -> Run:
        runs.append(Run(tmp_path, free_port(), sidecar, ready_timeout, **plan))
        return runs[-1]

    yield start_one
    for run in runs:
        run.kill_all()
        run.process.wait()


def sleeper(word: str) -> list[str]:
    return [sys.executable, "-c", f"import time; print({word!r}, flush=True); time.sleep(600)"]


def test_a_first_signal_lets_vllm_finish_and_its_exit_code_is_kept(start):
    run = start(exit_code=5)
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 5
    assert "received SIGTERM" in run.out.read_text()
    assert run.left() == []


def test_ctrl_c_reaches_vllm_as_ctrl_c(start):
    run = start()
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0
    assert run.out.read_text().splitlines()[-1] == "received SIGINT"


def test_a_closed_terminal_ends_vllm_like_sigterm(start):
    run = start()
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGHUP)
    assert run.end() == 0
    assert "received SIGTERM" in run.out.read_text()


def test_the_log_of_vllm_is_untouched_and_the_launchers_lines_are_marked(start):
    run = start()
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGTERM)
    run.end()
    assert run.out.read_text().startswith("a log line on standard output")
    unmarked = [line for line in run.err.read_text().splitlines() if not line.startswith("specwatch │ ")]
    assert unmarked == ["a log line on standard error"]


def test_a_server_that_ignores_the_first_signal_is_killed_by_the_second(start):
    run = start(ignore_signals=1000)
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGTERM)
    run.wait_for("received SIGTERM")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGKILL
    assert run.left() == []


def test_a_server_that_loses_the_signal_while_it_loads_is_killed(start):
    run = start(ignore_signals=1000, ready_after=600)
    run.wait_for("serving")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 128 + signal.SIGKILL
    assert "was not serving yet" in run.output()


def test_progress_is_shown_until_health_answers(start):
    run = start(ready_after=2.0)
    run.wait_for("is ready")
    assert any("waiting for http://127.0.0.1:" in line for line in run.said())
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0


def test_a_server_that_dies_before_it_serves_passes_its_code_on_and_says_where_to_look(start):
    run = start(exit_before=3)
    assert run.end() == 3
    assert "vLLM ended with code 3" in run.said()[-1]
    assert "Its log above says why" in run.said()[-1]


def test_a_server_that_is_not_ready_in_time_is_stopped(start):
    run = start(ready_after=600, ready_timeout=1.0)
    assert run.end() == 1
    assert "within 1 s and was stopped" in run.err.read_text()
    assert "--ready-timeout" in run.err.read_text()
    assert run.left() == []


def test_workers_of_a_killed_server_are_ended_even_outside_its_group(start):
    run = start(workers=True, kill_self=1.0)
    run.wait_for("workers")
    assert run.end() == 128 + signal.SIGKILL
    assert run.left() == []
    assert "ended by itself with code 137" in run.said()[-1]


def test_workers_left_by_a_start_that_failed_are_ended(start):
    run = start(workers=True, exit_before=1)
    assert run.end() == 1
    assert run.left() == []


def test_a_killed_launcher_takes_vllm_and_sidecar_along(start):
    run = start(sidecar=sleeper("sidecar here"))
    run.wait_for("sidecar here")
    run.process.kill()
    eventually(lambda: run.left() == [], lambda: f"still there: {run.left()}")
    assert "received SIGTERM" in run.out.read_text()


def test_the_sidecar_starts_once_vllm_is_ready_and_ends_with_it(start):
    run = start(sidecar=sleeper("sidecar here"), ready_after=1.0)
    run.wait_for("sidecar here")
    text = run.err.read_text()
    assert text.index("is ready") < text.index("sidecar here")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    assert run.left() == []


def test_what_the_sidecar_prints_stays_out_of_vllms_standard_output(start):
    run = start(sidecar=sleeper("sidecar here"))
    run.wait_for("sidecar here")
    assert "sidecar here" not in run.out.read_text()
    assert "sidecar here" in run.err.read_text()


def test_a_sidecar_that_crashes_is_reported_once_and_vllm_goes_on(start):
    run = start(sidecar=[sys.executable, "-c", "raise SystemExit(7)"])
    run.wait_for("the sidecar ended with code 7")
    assert run.process.poll() is None
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    assert run.output().count("the sidecar ended") == 1


def test_a_sidecar_that_cannot_start_leaves_vllm_alone(start):
    run = start(sidecar=["/nowhere/specwatch"])
    run.wait_for("no sidecar: /nowhere/specwatch: cannot be started")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0


def test_vllm_gets_the_signal_mask_that_the_launcher_was_given(start):
    run = start()
    run.wait_for("serving")
    pids = [pid for pid in run.left() if pid != run.process.pid]
    masks = {line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigBlk" in line}
    assert masks == {"SigBlk:\t0000000000000000"}
