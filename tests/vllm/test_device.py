"""The device's name: from the driver where there is one, else from the system."""

from __future__ import annotations

import os

from specwatch.vllm.device import device_name


def driver(tmp_path, monkeypatch, *names: str) -> None:
    """An nvidia-smi that knows these GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{name}'\n" for name in names))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


def test_gpus_of_one_kind_are_named_once(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3")
    assert device_name() == "NVIDIA H100 80GB HBM3"


def test_gpus_of_two_kinds_are_all_named(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch, "NVIDIA T4", "NVIDIA L4")
    assert device_name() == "NVIDIA L4, NVIDIA T4"


def test_without_a_gpu_it_is_the_processor(tmp_path, monkeypatch):
    driver(tmp_path, monkeypatch)
    assert device_name().startswith("CPU: ")
