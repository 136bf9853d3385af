"""The memory of GPUs, as given and as found."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from specwatch.errors import InputError
from specwatch.vllm.preflight import gpu
from specwatch.vllm.preflight.gpu import gpu_memories, memory_size

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80", 80 * GIB),
        ("80GiB", 80 * GIB),
        ("80 GiB", 80 * GIB),
        ("80gb", 80 * 10**9),
        ("81920MiB", 80 * GIB),
        ("1.5G", 3 * GIB // 2),
    ],
)
def test_a_size_is_read_with_its_unit_or_as_gib(text, size):
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "80XB", "-80", "0.92", "80GiB 80GiB", "٨٠"])
def test_a_size_that_is_none_of_a_gpu_is_refused(text):
    with pytest.raises(InputError, match="--gpu-memory"):
        memory_size(text)


def test_a_fraction_is_taken_for_the_other_flag():
    with pytest.raises(InputError, match="--gpu-memory-utilization"):
        memory_size("0.92")


@pytest.fixture
def two_gpus(monkeypatch):
    """nvidia-smi, and no library, on a machine with two GPUs."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    answer = SimpleNamespace(stdout="81920\n40960\n")
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: answer)
    return answer


@pytest.mark.parametrize(
    ("chosen", "sizes"),
    [(None, [80, 40]), ("1", [40]), ("1,0", [40, 80]), ("", []), ("-1", []), ("0,7", [80]), ("GPU-5ebe", [80, 40])],
)
def test_the_gpus_are_those_that_vllm_may_see(two_gpus, chosen, sizes):
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert gpu_memories(environment) == [size * GIB for size in sizes]


def test_a_gpu_that_shares_the_hosts_memory_tells_nothing(two_gpus):
    two_gpus.stdout = "[N/A]\n"
    assert gpu_memories({}) == []


@pytest.mark.parametrize(
    "problem", [FileNotFoundError(), subprocess.CalledProcessError(9, "x"), subprocess.TimeoutExpired("x", 1)]
)
def test_without_a_driver_there_are_none(monkeypatch, problem):
    def run(*arguments: object, **options: object) -> None:
        raise problem

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(subprocess, "run", run)
    assert gpu_memories({}) == []


def nvml(count: int, error: bool = False) -> ModuleType:
    """NVIDIA's library for Python, as far as it is asked."""
    module = ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})  # type: ignore[attr-defined]

    def start() -> None:
        if error:
            raise module.NVMLError

    module.nvmlInit, module.nvmlShutdown = start, lambda: None  # type: ignore[attr-defined]
    module.nvmlDeviceGetCount = lambda: count  # type: ignore[attr-defined]
    module.nvmlDeviceGetHandleByIndex = lambda place: place  # type: ignore[attr-defined]
    module.nvmlDeviceGetMemoryInfo = lambda place: SimpleNamespace(total=(place + 1) * GIB)  # type: ignore[attr-defined]
    return module


def test_the_library_is_asked_first(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(2))
    monkeypatch.setattr(gpu, "_smi", lambda: pytest.fail("nvidia-smi takes seconds"))
    assert gpu_memories({}) == [GIB, 2 * GIB]


def test_a_library_without_its_driver_gives_way_to_nvidia_smi(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", nvml(2, error=True))
    monkeypatch.setattr(gpu, "_smi", lambda: [7])
    assert gpu_memories({}) == [7]
