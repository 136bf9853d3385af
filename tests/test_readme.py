"""Every command of the README is run: here where it is quick, elsewhere where it needs a server."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from specwatch.alerting.catalogue import ALERTS
from specwatch.cli import specwatch

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

RUN_ELSEWHERE = {
    "make demo": "tests/e2e/test_demo.py",
    "make test": ".ci/run",
    "pip install .": "tests/test_packaging.py",
    "specwatch demo --simulated": "tests/e2e/test_demo.py",
    "specwatch check http://localhost:8000": "tests/e2e/test_check.py",
    "specwatch verify http://localhost:8000": "tests/e2e/test_verify.py",
    "specwatch status http://localhost:9108": "tests/cli/test_status.py",
    "specwatch top http://localhost:9108": "tests/cli/test_top.py",
}
"""Commands that need minutes or a server, and the file that runs them."""

OPTIONS_READ = {
    "specwatch sidecar": "tests/cli/test_sidecar.py",
    "specwatch calibrate": "tests/e2e/test_calibrate.py",
    "specwatch launch --plan": "tests/cli/test_launch.py",
    "specwatch roofline": "tests/cli/test_roofline.py",
    "specwatch evaluate-draft": "tests/e2e/test_evaluate_draft.py",
}
"""Commands that need servers, models or files of the reader's, or serve until stopped: here their options are read, and
these files run them."""

MADE_QUICK = {
    # The same options, without starting anything that stays.
    "specwatch launch": ["--dry-run", "--vllm-version", "0.32.0"],
    "specwatch gen-alerts": [],
    "specwatch gen-dashboards": [],
    "specwatch gen-k8s": [],
    "specwatch methods": [],
    "specwatch lint": [],
}
"""What is added to a command so that it ends by itself."""


def commands() -> list[str]:
    """The lines of the README's shell blocks, continuation lines joined, comments cut."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [re.sub(r"\s+", " ", line.partition("#")[0]).strip() for line in lines if line.strip()]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_works(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if command in RUN_ELSEWHERE:
        assert (ROOT / RUN_ELSEWHERE[command]).is_file()
        return
    # The folders that commands read are the repository's; what they write stays out of it.
    for folder in ("alerts", "dashboards", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    runs = next((file for start, file in OPTIONS_READ.items() if command.startswith(start)), None)
    if runs:
        assert (ROOT / runs).is_file()
        _, name, *words = shlex.split(command)
        found = specwatch.get_command(click.Context(specwatch), name)
        assert found is not None
        found.make_context(name, words)
        return
    added = next(words for start, words in MADE_QUICK.items() if command.startswith(start))
    result = CliRunner().invoke(specwatch, [*shlex.split(command)[1:], *added])
    assert result.exit_code == 0, result.output


def test_links_lead_to_files_that_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_alert_of_the_catalogue_is_explained():
    for alert in ALERTS:
        assert f"| {alert.name} | {alert.severity.value} |" in README
