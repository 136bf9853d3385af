from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import InputError, SpecwatchError
from specwatch.generate.dashboards import PROVISIONING, dashboard_files

FILE = "specwatch-fleet.json"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(specwatch, ["gen-dashboards", *map(str, arguments)])


def test_the_dashboards_and_their_provisioning_are_written_and_named(tmp_path: Path):
    result = run("--output", tmp_path / "new")
    assert result.exit_code == 0
    assert result.output.splitlines() == [f"wrote {tmp_path}/new/{name}" for name in sorted(dashboard_files())]
    assert json.loads((tmp_path / "new" / FILE).read_text())["uid"] == "specwatch-fleet"


def test_the_folder_is_dashboards_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    assert (tmp_path / "dashboards" / FILE).exists()


def test_options_reach_the_dashboards(tmp_path: Path):
    chosen = ["--prefix", "a-", "--tag", "a", "--tag", "b", "--job", "llm", "--draft-cost", "0.2", "--folder", "Ops"]
    kind = "victoriametrics-metrics-datasource"
    assert run("--output", tmp_path, *chosen, "--datasource-type", kind).exit_code == 0
    text = (tmp_path / "a-specwatch-fleet.json").read_text()
    dashboard = json.loads(text)
    assert dashboard["title"] == "a-specwatch: fleet"
    assert dashboard["tags"][-2:] == ["a", "b"]
    assert dashboard["templating"]["list"][0]["query"] == kind
    assert dashboard["templating"]["list"][1]["current"]["value"] == ["llm"]
    assert "0.2 * rate(" in text
    assert 'folder: "Ops"' in (tmp_path / PROVISIONING).read_text()


def test_an_unknown_type_of_data_source_is_a_usage_error_and_writes_nothing(tmp_path: Path):
    result = run("--output", tmp_path / "new", "--datasource-type", "mysql")
    assert result.exit_code == 2
    assert "prometheus" in result.output
    assert not (tmp_path / "new").exists()


def test_a_prefix_that_no_address_can_have_is_refused_and_nothing_is_written(tmp_path: Path):
    problem = run("--output", tmp_path / "new", "--prefix", "Team A: ").exception
    assert isinstance(problem, InputError)
    assert not (tmp_path / "new").exists()


def test_a_check_of_fresh_files_succeeds_and_writes_nothing(tmp_path: Path):
    run("--output", tmp_path)
    before = (tmp_path / FILE).stat().st_mtime_ns
    result = run("--output", tmp_path, "--check")
    assert (result.exit_code, result.output) == (0, f"{tmp_path} is what these options generate\n")
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
