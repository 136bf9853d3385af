"""How much memory the GPUs of this machine have, from NVIDIA's management library or nvidia-smi."""

from __future__ import annotations

import importlib
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from specwatch.errors import InputError

_UNITS = {"": 2**30, "GIB": 2**30, "G": 2**30, "GB": 10**9, "MIB": 2**20, "M": 2**20, "MB": 10**6, "TB": 10**12}
"""Bytes of each unit; a bare number is GiB, as nvidia-smi's table and the GPUs' names mean it."""
_SMI = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
_SMI_SECONDS = 10.0
"""Without a persistent driver nvidia-smi takes a few seconds to wake the GPUs."""


def memory_size(text: str) -> int:
    """Bytes of ``80``, ``80GiB`` or ``80GB``; InputError where it is no size of a GPU."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]*)", text.strip(), re.ASCII)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise InputError(f"--gpu-memory {text}: the memory of one GPU is needed, such as 80GiB")
    size = int(float(found[1]) * unit)
    if size < 2**30:
        raise InputError(
            f"--gpu-memory {text}: less than a GiB; it is the memory of one GPU, such as 80GiB (vLLM's share of it is "
            "--gpu-memory-utilization)"
        )
    return size


def gpu_memories(environment: Mapping[str, str]) -> list[int]:
    """Bytes of each GPU that CUDA_VISIBLE_DEVICES lets vLLM see, in its order; empty where there are none."""
    return _visible(_nvml() or _smi(), environment.get("CUDA_VISIBLE_DEVICES"))


def _visible(sizes: list[int], chosen: str | None) -> list[int]:
    """Those that are chosen by number; names of GPUs or their parts are not resolved, so all are kept."""
    if chosen is None:
        return sizes
    numbers = [word.strip() for word in chosen.split(",") if word.strip()]
    if not all(number.isdigit() for number in numbers):
        return [] if numbers == ["-1"] else sizes
    return [sizes[int(number)] for number in numbers if int(number) < len(sizes)]


def _nvml() -> list[int]:
    """By the Python binding, which vLLM for NVIDIA's GPUs brings."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError:
        return []
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(place) for place in range(pynvml.nvmlDeviceGetCount())]
            return [int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles]
        finally:
            pynvml.nvmlShutdown()
    return []


def _smi() -> list[int]:
    try:
        ended = subprocess.run(_SMI, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    # GPUs that share the host's memory answer "[N/A]".
    return [int(line) * 2**20 for line in ended.stdout.split() if line.isdigit()]
