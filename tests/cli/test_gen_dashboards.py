from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import SpecwatchError
from specwatch.generate.dashboards import FILE, PROVISIONING


def run(*arguments: object) -> Result:
    return CliRunner().invoke(specwatch, ["gen-dashboards", *map(str, arguments)])


def test_the_dashboard_and_its_provisioning_are_written_and_named(tmp_path: Path):
    result = run("--output", tmp_path / "new")
    assert result.exit_code == 0
    assert result.output.splitlines() == [f"wrote {tmp_path}/new/{name}" for name in (PROVISIONING, FILE)]
    assert json.loads((tmp_path / "new" / FILE).read_text())["uid"] == "specwatch-speculation"


def test_the_folder_is_dashboards_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    assert (tmp_path / "dashboards" / FILE).exists()


def test_options_reach_the_dashboard(tmp_path: Path):
    run("--output", tmp_path, "--prefix", "A: ", "--tag", "a", "--tag", "b", "--job", "llm", "--draft-cost", "0.2")
    text = (tmp_path / FILE).read_text()
    dashboard = json.loads(text)
    assert dashboard["title"] == "A: specwatch: speculation"
    assert dashboard["tags"][-2:] == ["a", "b"]
    assert dashboard["templating"]["list"][1]["current"]["value"] == ["llm"]
    assert "0.2 * rate(" in text


def test_a_check_of_fresh_files_succeeds_and_writes_nothing(tmp_path: Path):
    run("--output", tmp_path)
    before = (tmp_path / FILE).stat().st_mtime_ns
    result = run("--output", tmp_path, "--check")
    assert (result.exit_code, result.output) == (0, f"{tmp_path} is up to date\n")
    assert (tmp_path / FILE).stat().st_mtime_ns == before


def test_a_check_of_a_changed_file_fails_and_names_it(tmp_path: Path):
    run("--output", tmp_path)
    (tmp_path / FILE).write_text("{}\n")
    problem = run("--output", tmp_path, "--check").exception
    assert isinstance(problem, SpecwatchError)
    assert problem.exit_code == 1
    assert FILE in str(problem)
    assert PROVISIONING not in str(problem)
    assert (tmp_path / FILE).read_text() == "{}\n"


def test_a_check_of_a_missing_folder_fails_and_makes_none(tmp_path: Path):
    assert isinstance(run("--output", tmp_path / "none", "--check").exception, SpecwatchError)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_gives_one_clear_error(tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    problem = run("--output", tmp_path / "taken" / "dashboards").exception
    assert isinstance(problem, SpecwatchError)
    assert "cannot write into" in str(problem)
    assert "--output" in str(problem)


@pytest.mark.parametrize("cost", ["0", "-1", "cheap"])
def test_an_impossible_draft_cost_is_a_usage_error(cost: str):
    result = run("--draft-cost", cost)
    assert result.exit_code == 2
    assert "--draft-cost" in result.output
