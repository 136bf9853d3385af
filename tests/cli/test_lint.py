from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import InputError
from tests.support.lint import MISTAKES, alert, rule
from tests.support.programs import ROOT

ARTICLE = """\
groups:
  - name: vllm_speculative_alerts
    rules:
      - alert: SpeculativeAcceptanceRateLow
        expr: vllm:spec_decode_draft_acceptance_rate < 0.60
        for: 5m
        labels:
          severity: warning
        annotations:
          summary: "Tasa de aceptación de tokens especulativos baja en {{ $labels.instance }}"
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(specwatch, ["lint", *map(str, arguments)])


@pytest.fixture
def article(tmp_path: Path) -> Path:
    file = tmp_path / "alertmanager.yml"
    file.write_text(ARTICLE)
    return file


def test_the_articles_rule_fails_the_build_and_is_answered(article: Path):
    result = run(article)
    assert result.exit_code == 1
    assert f"{article}:5:15: error SW001" in result.stdout
    assert (
        "instead: sum by (job, instance, model_name) (rate(vllm:spec_decode_num_accepted_tokens_total" in result.stdout
    )


def test_on_the_release_that_it_was_written_for_only_notes_are_left(article: Path):
    result = run("--vllm-version", "0.8.5", article)
    assert result.exit_code == 0
    assert "note SW008" in result.stdout


def test_this_projects_own_files_pass():
    result = run(ROOT / "alerts", ROOT / "dashboards")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("found nothing in ")


def test_a_file_that_cannot_be_used_ends_with_2_and_one_message(tmp_path: Path, article: Path):
    broken = tmp_path / "broken.yml"
    broken.write_text("groups: [\n")
    result = run(broken, article)
    assert result.exit_code == 2
    assert result.stderr == f"specwatch: {broken}: line 2: not valid YAML: did not find expected node content\n"
    assert "SW001" in result.stdout


def test_where_no_file_can_be_used_nothing_is_said_to_be_found(tmp_path: Path):
    result = run(tmp_path / "missing.yml")
    assert (result.exit_code, result.stdout) == (2, "checked no file, for vLLM 0.33.0\n")
    assert result.stderr == f"specwatch: {tmp_path}/missing.yml: no such file or directory\n"


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_other_formats_are_json_and_nothing_else_on_stdout(article: Path, form: str):
    result = run("--format", form, article, article.with_name("missing.yml"))
    assert result.exit_code == 2
    held = json.loads(result.stdout)
    assert "no such file" in json.dumps(held)
    assert "SW001" in json.dumps(held)


def test_fix_mends_and_the_rest_stays_to_be_done(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(f"# mine\n{rule('rate(vllm:num_preemptions[5m]) # why')}")
    result = run("--fix", file)
    assert result.exit_code == 0
    assert result.stdout == "mended 1 name; found nothing in 1 file, for vLLM 0.33.0\n"
    assert file.read_text() == f"# mine\n{rule('rate(vllm:num_preemptions_total[5m]) # why')}"
    file.write_text(alert("avg(rate(vllm:num_preemptions[5m]) / rate(vllm:request_success[5m])) > 3"))
    assert run("--fix", file).exit_code == 1
    assert "vllm:request_success_total" in file.read_text()


def test_without_fix_nothing_is_written():
    before = {path: path.read_bytes() for path in MISTAKES.iterdir()}
    assert run(*before).exit_code == 1
    assert {path: path.read_bytes() for path in MISTAKES.iterdir()} == before


def test_a_version_that_is_none_is_refused(article: Path):
    problem = run("--vllm-version", "new", article).exception
    assert isinstance(problem, InputError)
    assert run(article.parent, "--vllm-version", "0.33.0").exit_code == 1


def test_at_least_one_file_is_wanted():
    result = run()
    assert result.exit_code == 2
    assert "FILE" in result.stderr


def test_hostile_files_end_in_words_and_the_process_lives(tmp_path: Path):
    deep = "(" * 40_000
    for name, text in {
        "deep.json": "[" * 200_000,
        "deep.yml": "a:\n" + "\n".join(" " * level + "-" for level in range(1, 2000)),
        "query.yml": alert(f"{deep}vllm:num_requests_running{deep.replace('(', ')')}"),
        "minus.yml": alert("-" * 40_000 + "vllm:num_requests_running"),
        "bytes.yml": "\x00\x01\x02",
        "pattern.yml": alert('{__name__=~"vllm:(a*)*(a|a)*$"} > 1'),
    }.items():
        (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "specwatch", "lint", *sorted(map(str, tmp_path.iterdir()))]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert sorted(line.split(": ")[1].split("/")[-1] for line in ended.stderr.splitlines()) == [
        "bytes.yml",
        "deep.json",
        "deep.yml",
    ]
    assert "found 2 notes in 3 files" in ended.stdout
