from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.lint import run as running
from specwatch.lint.run import run
from specwatch.vllm.features import NEWEST
from specwatch.vllm.releases import Release
from tests.support.lint import alert, rule

RIGHT, WRONG = rule("vllm:num_requests_running"), rule("vllm:gpu_cache_usage_perc")


def test_a_folder_is_looked_through_and_other_files_in_it_are_passed_over(tmp_path: Path):
    (tmp_path / "deeper" / ".hidden").mkdir(parents=True)
    for name, text in {
        "rules.yml": WRONG,
        "deeper/rules.yaml": WRONG,
        "deeper/.hidden/rules.yml": WRONG,
        ".rules.yml": WRONG,
        "compose.yml": "services: {}",
        "notes.txt": "[",
    }.items():
        (tmp_path / name).write_text(text)
    outcome = run([tmp_path], NEWEST)
    assert [Path(file).name for file in outcome.files] == ["rules.yml", "rules.yaml"]
    assert (len(outcome.findings), outcome.problems, outcome.failed) == (2, (), True)


def test_what_cannot_be_used_is_said_beside_what_was_found(tmp_path: Path):
    good, bad, other = (tmp_path / name for name in ("good.yml", "bad.yml", "other.yml"))
    good.write_text(WRONG)
    bad.write_text("groups: [")
    other.write_text("a: b\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    outcome = run([bad, good, other, empty], NEWEST)
    assert [finding.file for finding in outcome.findings] == [str(good)]
    assert [problem.split(": ")[0] for problem in outcome.problems] == [str(bad), str(other), str(empty)]
    assert "line 2: not valid YAML" in outcome.problems[0]
    assert "holds no rules for Prometheus, no Alertmanager configuration and no Grafana" in outcome.problems[1]


def test_one_bad_file_of_a_folder_keeps_nobody_from_the_others(tmp_path: Path):
    for name, text in {"a.yml": "groups: [", "b.yml": WRONG, "c.yml": "- {", "d.yml": WRONG}.items():
        (tmp_path / name).write_text(text)
    outcome = run([tmp_path], NEWEST)
    assert [Path(finding.file).name for finding in outcome.findings] == ["b.yml", "d.yml"]
    assert [Path(problem.split(": ")[0]).name for problem in outcome.problems] == ["a.yml", "c.yml"]


def test_files_that_hold_nothing_to_check_are_not_counted(tmp_path: Path):
    (tmp_path / "prometheus.yml").write_text("scrape_configs: []\n")
    (tmp_path / "rules.yml").write_text(RIGHT)
    outcome = run(sorted(tmp_path.iterdir()), NEWEST)
    assert (outcome.files, outcome.problems) == ((str(tmp_path / "rules.yml"),), ())


def test_files_are_judged_together_and_each_once(tmp_path: Path):
    reading, recording = tmp_path / "reading.yml", tmp_path / "recording.yml"
    reading.write_text(alert("vllm:running > 9"))
    recording.write_text(rule("sum(vllm:num_requests_running)", "record: vllm:running"))
    assert len(run([reading, reading], NEWEST).findings) == 1
    assert run([reading, recording], NEWEST).findings == ()


def test_notes_alone_are_no_failure(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(rule("vllm:spec_decode_efficiency"))
    outcome = run([file], Release.parse("0.9.2"))
    assert (len(outcome.findings), outcome.failed) == (1, False)


def test_a_release_newer_than_any_known_is_judged_like_the_newest(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(RIGHT)
    assert run([file], Release.parse("0.99.0")).findings == ()


def test_a_release_that_cannot_speculate_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"the first release that can is 0\.4\.1"):
        run([tmp_path], Release.parse("0.3.0"))


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(running, "MOST_FILES", 2)
    for number in range(3):
        (tmp_path / f"{number}.yml").write_text(RIGHT)
    assert "more than 2 files" in run([tmp_path], NEWEST).problems[0]
