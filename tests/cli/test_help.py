from __future__ import annotations

import json
import os
import sys

import click
import pytest
from click.testing import CliRunner

from specwatch import __version__, cli
from specwatch.cli import COMMANDS, specwatch
from specwatch.errors import InputError, SpecwatchError
from tests.support.programs import finish, run

HEAVY = {
    *("aiohttp", "fastapi", "grafanalib", "prometheus_client", "pydantic", "requests", "rich", "torch", "transformers"),
    *("uvicorn", "vllm", "yaml"),
}
"""What takes tens or hundreds of milliseconds to import."""

IMPORTED = """
import json, sys
from specwatch.cli import main
sys.argv[1:] = json.loads(sys.argv[1])
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]), file=sys.stderr)
"""


def imported(*words: str) -> set[str]:
    """Top-level modules that a run of the command line imported."""
    done = run([sys.executable, "-c", IMPORTED, json.dumps(words)])
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    return {name.partition(".")[0] for name in modules}


def test_help_lists_every_command_with_what_it_does():
    text = CliRunner().invoke(specwatch, ["--help"]).output
    for name, what in COMMANDS.items():
        assert f"  {name} " in text
        assert what in " ".join(text.split())


def test_help_imports_nothing_heavy():
    assert imported("--help") & HEAVY == set()


def test_the_version_imports_nothing_heavy():
    assert imported("--version") & HEAVY == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    result = CliRunner().invoke(specwatch, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: specwatch {name} ")
    lines = result.output.splitlines()
    assert len(lines[2]) > len("  ")


@pytest.mark.parametrize("name", ["check", "sidecar"])
def test_asking_for_help_needs_neither_torch_nor_vllm(name):
    assert imported(name, "--help") & {"torch", "transformers", "vllm"} == set()


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_asked_for_in_two_ways(flag):
    assert CliRunner().invoke(specwatch, [flag]).output.startswith("Usage: specwatch ")


def test_an_unknown_command_is_a_usage_error():
    done = finish([sys.executable, "-m", "specwatch", "chekc"])
    assert done.returncode == 2
    assert "No such command 'chekc'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_option_is_a_usage_error():
    done = finish([sys.executable, "-m", "specwatch", "sidecar", "--targets", "http://localhost:8000"])
    assert done.returncode == 2
    assert "No such option" in done.stderr
    assert "--target" in done.stderr


def test_the_module_is_the_command():
    done = run([sys.executable, "-m", "specwatch", "--version"])
    assert done.stdout == f"specwatch, version {__version__}\n"


@pytest.mark.parametrize(("problem", "code"), [(SpecwatchError("no such thing"), 1), (InputError("not this"), 2)])
def test_an_error_is_one_message_and_its_exit_code(problem, code, monkeypatch, capsys):
    @click.command()
    def fail() -> None:
        raise problem

    monkeypatch.setattr(cli, "specwatch", fail)
    monkeypatch.setattr(sys, "argv", ["specwatch"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code
    assert capsys.readouterr() == ("", f"specwatch: {problem}\n")


def test_an_error_of_a_process_ends_in_no_traceback():
    done = finish([sys.executable, "-m", "specwatch", "sidecar"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "specwatch: no target: name at least one server with --target http://HOST:PORT\n"


def test_a_terminal_of_another_encoding_gets_question_marks_and_no_traceback():
    done = finish(
        [sys.executable, "-m", "specwatch", "check", "http://127.0.0.1:1"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert "? The last scrape failed: no connection: connection refused." in " ".join(done.stdout.split())
