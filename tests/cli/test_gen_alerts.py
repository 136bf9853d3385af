from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import InputError, SpecwatchError
from specwatch.generate.rules_config import RulesConfig

LOW = "SpeculativeAcceptanceRateLow"
FILES = [
    "alertmanager.yml",
    "specwatch.rules.test.yml",
    "specwatch.rules.week.test.yml",
    "specwatch.rules.yml",
    "specwatch.tmpl",
]
RULES = "specwatch.rules.yml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(specwatch, ["gen-alerts", *map(str, arguments)])


def rule(folder: Path, name: str = LOW) -> dict[str, object]:
    """An alerting rule as it was written."""
    document = yaml.safe_load((folder / "specwatch.rules.yml").read_text())
    found: dict[str, object] = next(
        rule for group in document["groups"] for rule in group["rules"] if rule.get("alert") == name
    )
    return found


def refusal(*arguments: object) -> str:
    problem = run(*arguments).exception
    assert isinstance(problem, InputError)
    assert problem.exit_code == 2
    return str(problem)


def test_the_files_are_written_named_and_the_next_steps_told(tmp_path: Path):
    result = run("--output", tmp_path / "new")
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == FILES
    lines = result.output.splitlines()
    assert lines[:5] == [f"wrote {tmp_path}/new/{name}" for name in FILES]
    assert f"{tmp_path}/new/specwatch.rules.yml to rule_files" in lines[5]
    assert "/etc/alertmanager/secrets/slack-url" in lines[6]


def test_the_folder_is_alerts_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run().exit_code == 0
    assert sorted(path.name for path in (tmp_path / "alerts").iterdir()) == FILES


def test_options_reach_the_files(tmp_path: Path):
    options = ["--vllm-job", "llm", "--target-label", "namespace=prod", "--threshold", f"{LOW}=0.4"]
    options += ["--severity", f"{LOW}=page", "--rate-window", "10m", "--dashboard-url", "https://g.example/d/x"]
    options += ["--pagerduty-for", "page", "--slack-channel", "#llm"]
    assert run("--output", tmp_path, *options).exit_code == 0
    low = rule(tmp_path)
    assert "ratio_rate10m < 0.4" in str(low["expr"])
    assert low["labels"] == {"severity": "page"}
    assert "https://g.example/d/x?" in str(low["annotations"])
    assert str(rule(tmp_path, "SpeculationTargetDown")["expr"]).startswith('up{job="llm", namespace="prod"} == 0\n')
    assert (tmp_path / "alertmanager.yml").read_text().count("routing_key_file") == 1
    assert "channel: '#llm'" in (tmp_path / "alertmanager.yml").read_text()


def test_a_file_gives_the_options_and_the_command_line_wins(tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text(f"vllm_job: from-file\nrate_window: 10m\nthresholds:\n  {LOW}: 0.4\n  SpeculationDrifted: 1.2\n")
    run("--output", tmp_path, "--config", file, "--vllm-job", "from-flag", "--threshold", f"{LOW}=0.3")
    assert "ratio_rate10m < 0.3" in str(rule(tmp_path)["expr"])
    assert 'job="from-flag"' in str(rule(tmp_path, "SpeculationTargetDown")["expr"])
    assert ") >= 1.2\n" in str(rule(tmp_path, "SpeculationDrifted")["expr"])


def test_every_choice_can_be_made_in_the_file_and_on_the_command_line(tmp_path: Path):
    names = {
        "thresholds": "threshold",
        "severities": "severity",
        "target_labels": "target-label",
        "alert_labels": "alert-label",
        "model_teams": "model-team",
        "team_slack_url_files": "team-slack-url-file",
        "team_pagerduty_key_files": "team-pagerduty-key-file",
    }
    text = run("--help").output
    for key in RulesConfig.model_fields:
        assert f"--{names.get(key, key.replace('_', '-'))} " in text


def test_a_check_of_fresh_files_succeeds_and_writes_nothing(tmp_path: Path):
    run("--output", tmp_path)
    before = (tmp_path / FILES[0]).stat().st_mtime_ns
    result = run("--output", tmp_path, "--check")
    assert (result.exit_code, result.output) == (0, f"{tmp_path} is what these options generate\n")
    assert (tmp_path / FILES[0]).stat().st_mtime_ns == before


def test_a_check_of_a_changed_file_fails_and_names_it(tmp_path: Path):
    run("--output", tmp_path)
    (tmp_path / RULES).write_text("groups: []\n")
    problem = run("--output", tmp_path, "--check").exception
    assert isinstance(problem, SpecwatchError)
    assert problem.exit_code == 1
    assert "(specwatch.rules.yml)" in str(problem)
    assert (tmp_path / RULES).read_text() == "groups: []\n"


def test_a_check_with_other_options_fails(tmp_path: Path):
    run("--output", tmp_path)
    assert isinstance(run("--output", tmp_path, "--check", "--vllm-job", "other").exception, SpecwatchError)


def test_a_folder_that_cannot_be_written_gives_one_clear_error(tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    assert "cannot write into" in str(run("--output", tmp_path / "taken" / "alerts").exception)


def test_sixty_for_sixty_per_cent_is_refused_and_nothing_is_written(tmp_path: Path):
    assert "write 0.6 for 60 %" in refusal("--output", tmp_path / "new", "--threshold", f"{LOW}=60")
    assert not (tmp_path / "new").exists()


def test_an_unknown_key_of_the_file_is_refused_with_file_and_nearest_key(tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text("treshold: 0.5\nvllm_jobs: x\n")
    text = refusal("--config", file)
    assert f"treshold in {file}: unknown; did you mean thresholds?" in text
    assert f"vllm_jobs in {file}: unknown; did you mean vllm_job?" in text


@pytest.mark.parametrize("content", ["thresholds: 0.5\n", "thresholds: [a]\n", "- a\n", "a: [\n", "vllm_job: {}\n"])
def test_a_file_of_another_shape_is_refused(content: str, tmp_path: Path):
    file = tmp_path / "choices.yml"
    file.write_text(content)
    assert str(file) in refusal("--config", file)
    assert str(file) in refusal("--config", file, "--threshold", f"{LOW}=0.5")


def test_a_missing_file_is_refused(tmp_path: Path):
    assert "none.yml" in refusal("--config", tmp_path / "none.yml")


@pytest.mark.parametrize("option", ["--threshold", "--severity", "--target-label"])
@pytest.mark.parametrize("value", ["x", "=x", "x="])
def test_a_pair_without_a_name_or_a_value_is_a_usage_error(option: str, value: str):
    result = run(option, value)
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.output


@pytest.mark.parametrize("option", ["--slack-for", "--pagerduty-for"])
def test_an_unknown_audience_is_a_usage_error(option: str):
    result = run(option, "everyone")
    assert result.exit_code == 2
    assert "'all', 'page', 'ticket', 'none'" in result.output
