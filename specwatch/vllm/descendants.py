"""Keeps hold of every process that vLLM starts, so that none outlives it.

vLLM's engines and workers are processes of their own. When its server dies they become orphans; here they
become this process's children (Linux's child subreaper) instead of running on with the GPU's memory in hand.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
"""Numbers of prctl(2)."""
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0
"""Time after SIGKILL for a process to vanish: one that hangs in a driver may never do so."""
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with_parent() -> None:
    """In a new child, before its program runs: be told to end (SIGTERM) when the parent dies, however it dies."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)


def children(keep: Collection[int] = ()) -> list[int]:
    """Process ids of this process's children, zombies included, but for those in ``keep``."""
    me = os.getpid()
    return [pid for pid in _process_ids() if pid not in keep and _parent(pid) == me]


def _process_ids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may hold spaces and parentheses.
    return int(status.rpartition(")")[2].split()[1])


def reap(keep: Collection[int]) -> None:
    """Bury adopted orphans that have ended; a process whose end someone waits for belongs into ``keep``."""
    for pid in children(keep):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def end_all(group: int, grace: float, keep: Collection[int]) -> bool:
    """End a process group and all adopted orphans: SIGTERM, and SIGKILL after ``grace`` seconds.

    False when something is still there after all.
    """
    _signal_all(group, signal.SIGTERM, keep)
    if _gone(group, grace, keep):
        return True
    _signal_all(group, signal.SIGKILL, keep)
    return _gone(group, _KILL_SECONDS, keep)


def _gone(group: int, seconds: float, keep: Collection[int]) -> bool:
    """Whether nothing is left within that time."""
    deadline = time.monotonic() + seconds
    while _any_left(group, keep):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _signal_all(group: int, number: signal.Signals, keep: Collection[int]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in children(keep):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _any_left(group: int, keep: Collection[int]) -> bool:
    reap(keep)
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return bool(children(keep))
    return True
