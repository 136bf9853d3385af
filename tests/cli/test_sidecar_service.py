"""The sidecar under a service manager: the unit of the examples, and what it says to systemd."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from specwatch.cli.sidecar import command as sidecar_command
from specwatch.config import SidecarConfig, load
from tests.support.programs import ROOT
from tests.support.sidecars import AWAY, sidecar

FOLDER = ROOT / "examples" / "sidecar"
UNIT = FOLDER / "specwatch-sidecar.service"
PREFIX = "SPECWATCH_SIDECAR_"


def service() -> tuple[dict[str, str], dict[str, str]]:
    """The unit's settings, and its variables without what their names begin with."""
    settings: dict[str, str] = {}
    variables: dict[str, str] = {}
    for line in UNIT.read_text().partition("[Service]")[2].partition("[Install]")[0].splitlines():
        name, _, value = line.partition("=")
        if name == "Environment":
            variable, _, text = value.partition("=")
            variables[variable.removeprefix(PREFIX).lower()] = text
        elif not line.startswith("#"):
            settings[name] = value
    return settings, variables


def test_the_unit_starts_what_the_sidecar_understands():
    settings, variables = service()
    program, name, *words = shlex.split(settings["ExecStart"])
    assert (program, name) == ("/opt/specwatch/bin/specwatch", "sidecar")
    given = sidecar_command.make_context("sidecar", words).params
    assert given["config"] == Path("/etc/specwatch/sidecar.yaml")
    config = load(SidecarConfig, FOLDER / "sidecar.yaml", variables)
    assert [target.partition("=")[0] for target in config.target] == ["gpu-1", "gpu-2"]
    assert config.open_metrics
    assert str(config.database).startswith("%S/" + settings["StateDirectory"] + "/")


def test_every_secret_of_the_unit_is_handed_over_by_systemd_and_its_head_says_how_to_make_it():
    _, variables = service()
    head = UNIT.read_text().partition("[Unit]")[0]
    lines = [line.partition("=") for line in UNIT.read_text().splitlines()]
    loaded = dict(value.split(":") for name, _, value in lines if name == "LoadCredential")
    assert loaded
    assert {text for name, text in variables.items() if name.endswith("_file")} == {f"%d/{name}" for name in loaded}
    for path in loaded.values():
        assert path in head


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/specwatch/bin/specwatch", "/bin/true"))
    done = subprocess.run([verify, "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []


async def test_systemd_hears_when_it_serves_that_it_runs_and_when_it_stops(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"}
        loop = asyncio.get_running_loop()
        async with sidecar(*AWAY, env=variables) as it:
            heard = [await loop.sock_recv(manager, 100) for _ in range(3)]
            assert await it.end() == 0
        while heard[-1] != b"STOPPING=1":
            heard.append(await loop.sock_recv(manager, 100))
    assert heard[0] == b"READY=1"
    assert set(heard[1:-1]) == {b"WATCHDOG=1"}
