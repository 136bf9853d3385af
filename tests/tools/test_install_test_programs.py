"""Bringing Prometheus, Alertmanager and Chromium: which way for whom, and what is said when there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import install_test_programs as installer

SERVICES = (installer.PROMETHEUS, installer.PROMTOOL, installer.ALERTMANAGER, installer.AMTOOL)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with apt, and none of the programs."""
    folder = tmp_path / "on-path"
    folder.mkdir()
    program(folder / "apt-get")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(installer, "SERVICES", tmp_path / "services")
    return folder


def program(path: Path, *, exit_code: int = 0) -> None:
    """Write a program that only ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    path.chmod(0o755)


def fake_apt(monkeypatch, holds: dict[str, list[str]]) -> list[str]:
    """Let a package put its programs where unpacking or installing would; returns the packages fetched."""
    fetched: list[str] = []

    def put(package: str, folder: Path) -> None:
        fetched.append(package)
        if package not in holds:
            raise subprocess.CalledProcessError(100, ["apt-get", "download", package])
        for command in holds[package]:
            program(folder / command)

    monkeypatch.setattr(installer, "unpack", lambda package, into: put(package, into / "usr" / "bin"))
    monkeypatch.setattr(installer, "install", lambda package: put(package, installer.SERVICES.parent / "on-path"))
    return fetched


def test_the_packages_of_debian_12_hold_a_server_and_its_tool_each(machine, monkeypatch):
    fetched = fake_apt(
        monkeypatch,
        {
            "prometheus": ["prometheus", "promtool"],
            "prometheus-alertmanager": ["prometheus-alertmanager", "amtool"],
        },
    )
    assert installer.bring_all(SERVICES, root=False) == []
    assert fetched == ["prometheus", "prometheus-alertmanager"]


def test_a_tool_with_a_package_of_its_own_is_found_there(machine, monkeypatch):
    fetched = fake_apt(monkeypatch, {"prometheus": ["prometheus"], "promtool": ["promtool"]})
    assert installer.bring_all([installer.PROMETHEUS, installer.PROMTOOL], root=False) == []
    assert fetched[-1] == "promtool"


def test_what_is_on_the_path_is_not_fetched(machine, monkeypatch):
    fetched = fake_apt(monkeypatch, {})
    program(machine / "alertmanager")
    assert installer.bring_all([installer.ALERTMANAGER], root=True) == []
    assert fetched == []


def test_a_program_that_does_not_run_is_not_found(machine):
    program(installer.SERVICES / "usr" / "bin" / "amtool", exit_code=1)
    assert installer.find(installer.AMTOOL) is None


def test_root_renews_the_package_lists_and_tries_again(machine, monkeypatch):
    holds: dict[str, list[str]] = {}
    fake_apt(monkeypatch, holds)

    def renew(command, **options):
        if command[:1] == ["apt-get"]:
            holds["prometheus"] = ["prometheus"]
            return subprocess.CompletedProcess(command, 0)
        return run(command, **options)

    run = subprocess.run
    monkeypatch.setattr(installer.subprocess, "run", renew)
    assert installer.bring_all([installer.PROMETHEUS], root=True) == []


def test_without_root_chromium_is_left_and_the_remedy_names_it(machine, monkeypatch, capsys):
    fetched = fake_apt(monkeypatch, {"chromium": ["chromium"]})
    monkeypatch.setattr(installer, "PROGRAMS", (installer.CHROMIUM,))
    monkeypatch.setattr(installer.os, "geteuid", lambda: 1000)
    assert installer.main([]) == 1
    assert fetched == []
    said = capsys.readouterr()
    assert "missing" in said.out
    assert "apt-get install --no-install-recommends chromium" in said.err


def test_root_installs_chromium(machine, monkeypatch):
    fetched = fake_apt(monkeypatch, {"chromium": ["chromium"]})
    assert installer.bring_all([installer.CHROMIUM], root=True) == []
    assert fetched == ["chromium"]


def test_a_system_without_apt_is_told_what_to_put_on_the_path(machine, monkeypatch, capsys):
    (machine / "apt-get").unlink()
    assert installer.main([]) == 1
    assert "no apt: put prometheus, promtool" in capsys.readouterr().err


def test_listing_fetches_nothing(machine, monkeypatch):
    fetched = fake_apt(monkeypatch, {})
    assert installer.main(["--list"]) == 1
    assert fetched == []


def package_with_a_file(monkeypatch, path: Path) -> installer.Program:
    """A program whose package has a file that it reads in the system."""

    def unpack(package: str, into: Path) -> None:
        program(into / "usr" / "bin" / "reader")
        copy = into / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("template")

    monkeypatch.setattr(installer, "unpack", unpack)
    return installer.Program("Reader", ("reader",), ("reader",), reads=(path,))


def test_root_puts_a_file_where_the_unpacked_program_reads_it(machine, monkeypatch, tmp_path):
    path = tmp_path / "system" / "default.tmpl"
    reader = package_with_a_file(monkeypatch, path)
    assert installer.bring_all([reader], root=True) == []
    assert path.read_text() == "template"


def test_a_file_that_is_there_is_not_overwritten(machine, monkeypatch, tmp_path):
    path = tmp_path / "default.tmpl"
    path.write_text("the system's own")
    assert installer.bring_all([package_with_a_file(monkeypatch, path)], root=False) == []
    assert path.read_text() == "the system's own"


def test_who_may_not_write_the_file_is_told_what_root_must_run(machine, monkeypatch, tmp_path, capsys):
    path = tmp_path / "file-in-the-way" / "default.tmpl"
    path.parent.touch()
    reader = package_with_a_file(monkeypatch, path)
    monkeypatch.setattr(installer, "PROGRAMS", (reader,))
    monkeypatch.setattr(installer.os, "geteuid", lambda: 1000)
    assert installer.main([]) == 1
    assert "install_test_programs.py\nthen run this again" in capsys.readouterr().err
    assert installer.bring_all([reader], root=False) == [reader]
