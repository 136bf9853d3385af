"""Programs under test: started with their output in a file, and every process that they start kept in mind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_EVERY = 0.2
"""Seconds between two looks at a running program."""

STOP_SECONDS = 60.0
"""Longest that a program may take to end before the test kills it: vLLM's launcher waits 30 s for it."""

GONE_SECONDS = 10.0
"""Longest that a process may still be seen after its parent has ended: the kernel buries it in between."""

TAIL_LINES = 40
"""Lines of a log in a failure's message."""


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same id by its start."""

    pid: int
    started: int
    """Clock ticks since the machine's start."""
    command: str = field(compare=False)


def family(pid: int) -> set[Process]:
    """A process and all its descendants now."""
    numbers = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    known = {number: found for number in numbers if (found := _read(number))}
    members = {pid} & known.keys()
    while more := {child for child, (_, parent) in known.items() if parent in members} - members:
        members |= more
    return {known[member][0] for member in members}


def still_there(processes: set[Process]) -> set[Process]:
    """Those that run on."""
    return {process for process in processes if (found := _read(process.pid)) and found[0] == process}


def _read(pid: int) -> tuple[Process, int] | None:
    """A process and its parent's id; None where it has ended, buried or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold spaces and parentheses.
    name, _, rest = status.partition("(")[2].rpartition(")")
    state, parent, *others = rest.split()
    return None if state == "Z" else (Process(pid, int(others[17]), name), int(parent))


@dataclass
class Running:
    """A program that was started, and what has been seen of it."""

    process: subprocess.Popen[bytes]
    log: Path
    seen: set[Process] = field(default_factory=set)
    """Every process of it so far; more are found at every look."""

    def output(self) -> str:
        """Everything it has printed."""
        return self.log.read_text(errors="replace")

    def tail(self) -> str:
        """The end of what it has printed, for a failure's message."""
        return "\n".join(["its output ends with:", *self.output().splitlines()[-TAIL_LINES:]])

    def look(self) -> int | None:
        """Remember the processes that it has now; its exit code once it has ended."""
        # The newest names of those seen before: a process may call itself something else once it has started.
        self.seen = family(self.process.pid) | self.seen
        return self.process.poll()

    def until(self, what: str, seen: Callable[[], bool], seconds: float) -> None:
        """Wait until ``seen``; an AssertionError when it ends or the time passes before."""
        deadline = time.monotonic() + seconds
        while not seen():
            code = self.look()
            assert code is None or seen(), f"ended with {code} before {what}; {self.tail()}"
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}; {self.tail()}"
            time.sleep(LOOK_EVERY)

    def exit_code(self, seconds: float) -> int:
        """Its code when it ends; an AssertionError when it does not in this time."""
        deadline = time.monotonic() + seconds
        while (code := self.look()) is None:
            assert time.monotonic() < deadline, f"still running after {seconds:g} s; {self.tail()}"
            time.sleep(LOOK_EVERY)
        return code

    def left_behind(self) -> list[str]:
        """Processes of it that outlive it; to be asked after its end."""
        deadline = time.monotonic() + GONE_SECONDS
        while (left := still_there(self.seen)) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)
        return sorted(f"{process.command} ({process.pid})" for process in left)


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a program in a process group of its own; whatever happens, nothing of it is left at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    program = Running(process, log)
    try:
        yield program
    finally:
        program.look()
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        for left in still_there(program.seen):
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)
        process.wait()
