from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specwatch.errors import SpecwatchError
from specwatch.lab import child as module
from specwatch.lab.child import NOT_HANDED_OUT, Child, free_port, running
from tests.support.http import serving, text_page

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""
"""A program that does not end when it is asked to."""

DEAF_WITH_CHILD = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
time.sleep(60)
"""

ENDS_AT_SECOND_ASKING = """
import signal, sys, time
asked = 0
def stop(number, frame):
    global asked
    asked += 1
    print("asked", flush=True)
    if asked == 2:
        sys.exit(7)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


KILLED_WITH_A_CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from specwatch.lab.child import running

async def main():
    async with running("it", [sys.executable, "-c", "import time; time.sleep(60)"], Path(sys.argv[1])) as child:
        print(child.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


async def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    for _ in range(round(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"not so after {seconds:g} s")


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie that its parent has not asked about."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def nobody(_: float) -> None:
    """Waits in silence."""


async def test_a_process_that_ends_when_asked_is_not_killed(tmp_path):
    program = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n"
    async with running("it", python(program + "print(1, flush=True)\ntime.sleep(60)"), tmp_path / "log") as child:
        await until((tmp_path / "log").read_text)
        assert child.died() is None
    assert child.process.returncode == 3


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STOP_SECONDS", 0.2)
    async with running("it", python(DEAF), tmp_path / "log") as child:
        await until((tmp_path / "log").read_text)
    assert child.process.returncode == -signal.SIGKILL


async def test_what_a_process_started_ends_with_it(tmp_path):
    async with running("it", python(DEAF_WITH_CHILD), tmp_path / "log"):
        await until(lambda: (tmp_path / "log").read_text().endswith("\n"))
        grandchild = int((tmp_path / "log").read_text())
        assert is_running(grandchild)
    await until(lambda: not is_running(grandchild))


async def test_the_process_ends_with_this_one_even_when_this_one_is_killed(tmp_path):
    parent = await asyncio.create_subprocess_exec(
        *python(KILLED_WITH_A_CHILD), str(tmp_path / "log"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await parent.communicate()
    assert parent.returncode == -signal.SIGKILL
    await until(lambda: not is_running(int(output)))


async def test_an_error_on_the_way_ends_the_process_too(tmp_path):
    with pytest.raises(ZeroDivisionError):
        async with running("it", python("import time; time.sleep(60)"), tmp_path / "log") as child:
            raise ZeroDivisionError
    assert child.process.returncode == -signal.SIGTERM


async def test_who_asks_twice_is_not_made_to_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HURRIED_SECONDS", 60.0)
    log = tmp_path / "log"

    async def run() -> None:
        async with running("it", python(ENDS_AT_SECOND_ASKING), log) as child:
            children.append(child)
            await asyncio.sleep(60)

    children: list[Child] = []
    task = asyncio.create_task(run())
    await until(lambda: log.exists() and "ready" in log.read_text())
    task.cancel()
    await until(lambda: "asked" in log.read_text())
    assert children[0].process.returncode is None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children[0].process.returncode == 7


async def test_asking_twice_leaves_nothing_behind_that_is_deaf(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "HURRIED_SECONDS", 0.2)
    log = tmp_path / "log"

    async def run() -> None:
        async with running("it", python(DEAF), log) as child:
            children.append(child)
            await asyncio.sleep(60)

    children: list[Child] = []
    task = asyncio.create_task(run())
    await until(lambda: log.exists() and log.read_text())
    task.cancel()
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children[0].process.returncode == -signal.SIGKILL


async def test_a_process_that_dies_early_is_reported_with_the_end_of_its_log(tmp_path):
    program = "import sys\nfor i in range(40): print(f'line {i}')\nsys.exit(4)"
    async with running("the server", python(program), tmp_path / "log") as child:
        with pytest.raises(SpecwatchError) as caught:
            await child.until_healthy("http://127.0.0.1:1/health", 30, nobody)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the server ended with code 4; {tmp_path / 'log'} ends with"
    assert [line.strip() for line in lines[1:]] == [f"line {i}" for i in range(25, 40)]


async def test_a_process_that_never_answers_is_given_up_with_the_place_of_its_log(tmp_path):
    heard: list[float] = []
    async with running("the server", python("import time; time.sleep(60)"), tmp_path / "log") as child:
        with pytest.raises(SpecwatchError, match=r"the server did not answer at http\S+/health within 3 s"):
            await child.until_healthy("http://127.0.0.1:1/health", 3.0, heard.append)
    assert heard == sorted(heard)
    assert heard[0] < 3.0


async def test_a_process_is_healthy_once_its_address_answers_200(tmp_path):
    answers: list[int] = []

    async def health(request):
        answers.append(503 if len(answers) < 2 else 200)
        response = await text_page("")(request)
        response.set_status(answers[-1])
        return response

    async with (
        serving({"/health": health}) as url,
        running("it", python("import time; time.sleep(60)"), tmp_path / "log") as child,
    ):
        await child.until_healthy(f"{url}/health", 30, nobody)
    assert answers == [503, 503, 200]


async def test_output_goes_to_the_log_and_the_environment_is_added_to(tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_TEST", "kept")
    program = "import os, sys; print(os.environ['OF_THE_TEST'], os.environ['ADDED']); sys.exit('an error')"
    async with running("it", python(program), tmp_path / "log", {"ADDED": "added"}) as child:
        await child.process.wait()
    assert (tmp_path / "log").read_text() == "kept added\nan error\n"


def test_a_preferred_port_is_taken_where_it_is_free():
    port = free_port()
    assert free_port(preferred=port) == port


def test_a_port_for_later_is_none_that_others_are_given_meanwhile():
    assert all(free_port() in NOT_HANDED_OUT for _ in range(20))
    assert max(NOT_HANDED_OUT) < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


async def test_a_preferred_port_that_is_taken_gives_another():
    async with serving({}) as url:
        taken = int(url.rpartition(":")[2])
        assert free_port(preferred=taken) != taken


async def test_the_process_has_a_session_of_its_own(tmp_path):
    async with running("it", python("import time; time.sleep(60)"), tmp_path / "log") as child:
        assert os.getsid(child.process.pid) == child.process.pid
