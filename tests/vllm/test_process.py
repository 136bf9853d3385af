"""The supervisor with real processes: a stand-in for vLLM, its workers, a sidecar, and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from specwatch.lab.child import free_port
from tests.support import fake_vllm
from tests.support.programs import ROOT

PATIENCE = 60.0
"""Seconds after which something that should happen is taken as not happening."""


class Run:
    """A supervisor at work on the stand-in, its output in files."""

    def __init__(self, folder: Path, port: int, job: dict[str, Any], wrapper: list[str], plan: dict[str, Any]) -> None:
        self.out, self.err = folder / "out", folder / "err"
        command = [sys.executable, "-m", fake_vllm.__name__, "--port", str(port)]
        job = {"command": command, "port": port} | job
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(
                [*wrapper, sys.executable, "-m", "tests.support.supervise", json.dumps(job)],
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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start_one(
        sidecar: list[str] | None = None,
        ready_timeout: float = PATIENCE,
        restarts: dict[str, float] | None = None,
        environment: dict[str, str] | None = None,
        wrapper: Sequence[str] = (),
        **plan: Any,
    ) -> Run:
        asked = {"sidecar": sidecar, "restarts": restarts, "environment": environment}
        job = {"ready_timeout": ready_timeout} | {key: value for key, value in asked.items() if value is not None}
        runs.append(Run(tmp_path, free_port(), job, list(wrapper), plan))
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


def test_progress_is_shown_until_health_answers(start, tmp_path):
    loaded = tmp_path / "loaded"
    run = start(ready_when=str(loaded))
    run.wait_for("waiting for http://127.0.0.1:")
    loaded.touch()
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
    assert "did not serve within 1 s and was stopped" in run.err.read_text()
    assert "--ready-timeout" in run.err.read_text()
    assert run.left() == []


def test_workers_of_a_killed_server_are_ended_even_outside_its_group(start):
    run = start(workers=True, kill_self=0)
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


def test_a_failed_server_is_started_again_and_may_recover(start):
    run = start(restarts={"delay": 0.1}, runs=[{"kill_self": 0}, {"exit_before": 1}, {}])
    run.wait_for("restart number 2")
    eventually(lambda: run.output().count("vLLM is ready") == 2, run.output)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    assert "vLLM ended by itself with code 137" in run.output()
    assert "starting it again in 0.1 s (1 of 5)" in run.output()
    assert re.search(r"vLLM ended with code 1 after \d+ s; starting it again in 0.2 s \(2 of 5\)", run.output())
    assert run.left() == []


def test_an_end_that_nobody_asked_for_is_a_failure_even_with_code_0(start):
    run = start(restarts={"delay": 0.1, "limit": 1}, exit_after=0, exit_code=0)
    assert run.end() == 1
    assert run.output().count("vLLM is ready") == 2
    assert "vLLM is not started again: it failed 2 times in a row" in run.said()[-2]
    assert "ended by itself with code 0" in run.said()[-1]


def test_without_restarts_even_code_0_is_kept(start):
    assert start(exit_after=0, exit_code=0).end() == 0


def test_a_server_that_keeps_failing_is_given_up_with_its_last_code(start):
    run = start(restarts={"delay": 0.1, "limit": 2}, exit_before=3)
    assert run.end() == 3
    assert run.output().count("a log line on standard output") == 3
    assert [line for line in run.said() if "starting it again" in line][-1].endswith("in 0.2 s (2 of 2)")


def test_a_failure_after_long_service_counts_as_the_first(start):
    run = start(restarts={"delay": 0.1, "limit": 1, "settled": 0.0}, runs=[*[{"exit_after": 0}] * 4, {}])
    run.wait_for("restart number 4")
    run.process.send_signal(signal.SIGTERM)
    run.end()
    assert "not started again" not in run.output()
    assert run.output().count("(1 of 1)") == 4


def test_a_command_line_that_vllm_refuses_is_not_tried_again(start):
    run = start(restarts={"delay": 0.1}, exit_before=2)
    assert run.end() == 2
    assert "vLLM is not started again: it refuses its command line" in run.output()
    assert run.output().count("a log line on standard output") == 1


def test_a_server_that_is_late_is_started_again(start):
    run = start(restarts={"delay": 0.1}, ready_timeout=1.5, runs=[{"ready_after": 600}, {}])
    run.wait_for("is ready")
    assert "within 1.5 s: stopping it" in run.output()
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0


def test_a_stop_between_two_starts_is_a_stop(start):
    run = start(restarts={"delay": 600.0}, kill_self=0)
    run.wait_for("starting it again in 300 s")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 137
    assert run.left() == []


def test_a_stopped_server_is_not_started_again(start):
    run = start(restarts={"delay": 0.1}, exit_code=7)
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 7
    assert "starting it again" not in run.output()


def test_workers_are_gone_before_the_next_start(start):
    run = start(restarts={"delay": 0.1}, runs=[{"workers": True, "kill_self": 0}, {"exit_before": 2}])
    run.wait_for("workers")
    workers = {int(word) for word in run.output().partition("workers")[2].split()[:2]}
    assert run.end() == 2
    assert workers.isdisjoint(run.left())


def test_the_sidecar_outlives_a_server_that_is_started_again(start):
    run = start(sidecar=sleeper("sidecar here"), restarts={"delay": 0.1}, runs=[{"exit_after": 1.0}, {}])
    run.wait_for("sidecar here")
    eventually(lambda: run.output().count("vLLM is ready") == 2, run.output)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    assert run.output().count("starting the sidecar") == 1
    assert run.left() == []


def test_a_crashed_sidecar_comes_back_with_the_next_server(start, tmp_path):
    crashing, over = [sys.executable, "-c", "raise SystemExit(7)"], tmp_path / "over"
    run = start(sidecar=crashing, restarts={"delay": 0.1}, runs=[{"exit_when": str(over)}, {}])
    run.wait_for("the sidecar ended with code 7")
    over.touch()
    eventually(lambda: run.output().count("the sidecar ended with code 7") == 2, run.output)
    assert run.output().count("starting the sidecar") == 2
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0


def test_a_killed_launcher_leaves_nothing_between_two_starts(start):
    run = start(sidecar=sleeper("sidecar here"), restarts={"delay": 600.0}, kill_self=1.0)
    run.wait_for("starting it again in 300 s")
    run.process.kill()
    eventually(lambda: run.left() == [], lambda: f"still there: {run.left()}")


def test_secrets_reach_vllm_and_nothing_that_others_see(start):
    secret = f"sk-{os.getpid()}"
    run = start(sidecar=sleeper("sidecar here"), environment={"VLLM_API_KEY": secret}, variables=["VLLM_API_KEY"])
    run.wait_for(f"VLLM_API_KEY={secret}")
    run.wait_for("sidecar here")
    children = [pid for pid in run.left() if pid != run.process.pid]
    assert len(children) == 2
    holders = [pid for pid in children if secret.encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    assert len(holders) == 1

    def shown() -> bytes:
        return b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children)

    # A child that has not begun yet shows the command line of this test's own supervisor.
    eventually(lambda: secret.encode() not in shown(), lambda: f"a command line shows the secret: {shown()!r}")
    assert secret not in run.err.read_text()


def test_systemd_hears_that_vllm_is_ready_and_that_it_stops(start, tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        run = start(restarts={"delay": 0.1}, runs=[{"exit_after": 0, "variables": ["NOTIFY_SOCKET"]}, {}])
        heard = [manager.recv(1000).decode() for _ in range(3)]
        run.process.send_signal(signal.SIGTERM)
        heard.append(manager.recv(1000).decode())
    run.end()
    assert heard == [
        "READY=1\nSTATUS=vLLM serves",
        "STATUS=vLLM ended with code 0, starting it again in 0.1 s",
        "READY=1\nSTATUS=vLLM serves",
        "STOPPING=1",
    ]
    assert "NOTIFY_SOCKET=None" in run.output()


def test_a_service_manager_that_is_not_there_is_no_error(start, tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    run = start()
    run.wait_for("is ready")
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0


FIRST = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Runs a command as the first process of its own little system, as a container does."""


@pytest.fixture
def first() -> list[str]:
    tried = subprocess.run([*FIRST, "true"], capture_output=True, text=True, check=False) if which("unshare") else None
    if tried is None or tried.returncode:
        pytest.skip(f"this system allows no process namespaces: {tried.stderr.strip() if tried else 'no unshare'}")
    return FIRST


def test_the_first_process_of_a_container_is_told_to_stop_and_buries_the_dead(start, first):
    run = start(wrapper=first, workers=True)
    run.wait_for("is ready")
    (launcher,) = [pid for pid in run.left() if _numbers_inside(pid)[-1] == 1]
    orphan = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(0.5)'])"
    inside = ["nsenter", "--user", "--pid", "--preserve-credentials", "--target", str(launcher)]
    subprocess.run([*inside, sys.executable, "-c", orphan], env=os.environ | {"MARK": "orphan"}, check=True)
    eventually(lambda: _dead_children(launcher) == [], lambda: f"unburied: {_dead_children(launcher)}")
    os.kill(launcher, signal.SIGTERM)
    assert run.end() == 0
    assert "received SIGTERM" in run.out.read_text()
    assert run.left() == []


def _numbers_inside(pid: int) -> list[int]:
    """A process's ids, from the outermost system that can see it to its own."""
    status = Path(f"/proc/{pid}/status").read_text()
    return [int(word) for line in status.splitlines() if line.startswith("NSpid") for word in line.split()[1:]]


def _dead_children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, of, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            found += [int(entry.name)] if (state, int(of)) == ("Z", parent) else []
    return found


def test_vllm_gets_the_signal_mask_that_the_launcher_was_given(start):
    run = start()
    run.wait_for("serving")
    pids = [pid for pid in run.left() if pid != run.process.pid]
    masks = {line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "SigBlk" in line}
    assert masks == {"SigBlk:\t0000000000000000"}
