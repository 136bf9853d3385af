"""How much processor time a server on this machine has used: a clock that other people's work does not stop.

On a machine whose cores are shared, a step of two milliseconds takes as long as the scheduler makes it take. The
processor time of the engine does not, and where nothing else runs the two tell the same ratios.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from specwatch.measure.calibration.runs import Run
from specwatch.vllm.metrics import Counter

_TICK = os.sysconf("SC_CLK_TCK")
_ENGINE = "VLLM::"
"""What vLLM's engine processes call themselves; the API server beside them is no part of a step."""


def cpu_seconds(url: str) -> float:
    """Processor time that the engine of the server at ``url`` has used since it started; 0 where it is not found."""
    port = str(urlsplit(url).port)
    known = _processes()
    family = {pid for pid in known if _serves(pid, port)}
    while more := {pid for pid, (_, parent, _) in known.items() if parent in family} - family:
        family |= more
    return sum(known[pid][2] for pid in family if known[pid][0].startswith(_ENGINE)) / _TICK


def in_cpu_time(run: Run, seconds: float) -> Run:
    """A run as if its time had passed only while the engine computed: all its durations shrunk alike."""
    share = seconds / run.seconds
    counts = run.counts | {Counter.DECODE_STEP_SECONDS: run.counts[Counter.DECODE_STEP_SECONDS] * share}
    return replace(run, seconds=seconds, decode_seconds=run.decode_seconds * share, counts=counts)


def _processes() -> Mapping[int, tuple[str, int, int]]:
    """By process id its name, its parent and its ticks of processor time."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            name, _, rest = (entry / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
            fields = rest.split()
            found[int(entry.name)] = (name, int(fields[1]), int(fields[11]) + int(fields[12]))
    return found


def _serves(pid: int, port: str) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return "vllm.entrypoints.openai.api_server" in words and ("--port", port) in pairwise(words)
    return False
