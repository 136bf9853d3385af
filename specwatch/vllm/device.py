"""What this machine computes on, in one line: a measurement holds for no other device."""

from __future__ import annotations

import platform
import re
import subprocess
from contextlib import suppress
from pathlib import Path

_SMI = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
_SMI_SECONDS = 10.0
"""Without a persistent driver nvidia-smi takes a few seconds to wake the GPUs."""
_CPU_MODEL = re.compile(r"^(?:model name|Hardware)\s*:\s*(\S.*)$", re.MULTILINE)


def device_name() -> str:
    """The kind of GPU as its driver names it, such as ``NVIDIA H100 80GB HBM3``; without any, the processor.

    However many there are: a machine with eight of them runs what four measured.
    """
    with suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(_SMI, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
        kinds = {line.strip() for line in ended.stdout.splitlines() if line.strip()}
        if kinds:
            return ", ".join(sorted(kinds))
    with suppress(OSError):
        found = _CPU_MODEL.search(Path("/proc/cpuinfo").read_text(errors="replace"))
        if found:
            return f"CPU: {found[1].strip()}"
    return f"CPU: {platform.machine()}"
