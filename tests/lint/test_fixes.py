from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest
import yaml

from specwatch.errors import SpecwatchError
from specwatch.lint.findings import Fix
from specwatch.lint.fixes import mend, mended
from specwatch.lint.reading import content
from specwatch.lint.run import run
from specwatch.vllm.features import NEWEST
from tests.support.lint import MISTAKES

RULES = """\
# Kept: every comment, the order and the quotes.
groups:
- name:   odd   # spacing
  rules:
    - {record: a, expr: 'rate(vllm:num_preemptions[5m])'}   # in a flow mapping
    - record: b
      expr: >-
        vllm:gpu_cache_usage_perc
        > 0.9   # no comment of YAML's, and none of PromQL's for it is folded
    - record: c
      expr: |
        # vllm:gpu_cache_usage_perc in a comment stays
        max(vllm:gpu_cache_usage_perc{x="vllm:gpu_cache_usage_perc"})
    - alert: vllm:num_preemptions
      expr: "rate(vllm:num_preemptions[5m]) > rate({__name__=\\"vllm:num_preemptions\\"}[1h])"
      annotations: {summary: "vllm:num_preemptions é 😀"}
"""
MENDED = (
    RULES.replace("rate(vllm:num_preemptions[", "rate(vllm:num_preemptions_total[")
    .replace('\\"vllm:num_preemptions\\"', '\\"vllm:num_preemptions_total\\"')
    .replace("max(vllm:gpu_cache", "max(vllm:kv_cache")
    .replace("        vllm:gpu_cache_usage_perc\n", "        vllm:kv_cache_usage_perc\n")
)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_names_change_and_nothing_else(tmp_path: Path, ends: str, mark: str):
    file = tmp_path / "rules.yml"
    file.write_bytes((mark + RULES.replace("\n", ends)).encode())
    outcome = run([file], NEWEST, fix=True)
    assert file.read_bytes().decode() == mark + MENDED.replace("\n", ends)
    assert outcome.mended == 5
    assert outcome.findings == ()
    assert run([file], NEWEST, fix=True).mended == 0


def test_a_dashboard_keeps_its_tabs_and_what_else_a_person_wrote(tmp_path: Path):
    file = tmp_path / "dashboard.json"
    before = content(MISTAKES / "mistakes.dashboard.json")
    file.write_text(before)
    run([file], NEWEST, fix=True)
    after = file.read_text()
    renamed = before.replace('"vllm:gpu_cache', '"vllm:kv_cache', 1)
    assert after == renamed.replace("generation_tokens[5m]", "generation_tokens_total[5m]")
    assert json.loads(after)["title"] == json.loads(before)["title"]


def test_every_fix_in_the_file_of_mistakes_is_right(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(content(MISTAKES / "mistakes.rules.yml"))
    before = run([file], NEWEST)
    fixable = [finding for finding in before.findings if finding.fixes]
    after = run([file], NEWEST, fix=True)
    assert len(before.findings) - len(after.findings) == len(fixable) == after.mended == 2
    assert "# the page has _total" in file.read_text()
    assert yaml.safe_load(file.read_text())


def test_an_alias_is_mended_once(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(
        "groups: [{name: g, rules: [{record: a, expr: &e 'rate(vllm:num_preemptions[5m])'}, {record: b, expr: *e}]}]\n"
    )
    assert run([file], NEWEST, fix=True).findings == ()
    assert file.read_text().count("vllm:num_preemptions_total") == 1


def test_a_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path):
    file, link = tmp_path / "rules.yml", tmp_path / "link.yml"
    file.write_text(RULES)
    file.chmod(0o640)
    link.symlink_to(file)
    run([link], NEWEST, fix=True)
    assert link.is_symlink()
    assert file.read_text() == MENDED
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yml", "rules.yml"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path):
    file = tmp_path / "rules.yml"
    file.write_text(RULES)
    findings = run([file], NEWEST).findings
    file.write_text(RULES + "# more\n")
    with pytest.raises(SpecwatchError, match="changed while it was linted"):
        mend(findings, {str(file): RULES})
    assert file.read_text() == RULES + "# more\n"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "rules.yml"
    file.write_text(RULES)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SpecwatchError, match=r"cannot write .*rules.yml: No space left"):
        run([file], NEWEST, fix=True)
    assert file.read_text() == RULES


def test_fixes_are_made_from_the_end_and_only_where_the_old_name_stands():
    fixes = {Fix(0, 1, "a", "long"), Fix(2, 3, "b", ""), Fix(4, 5, "x", "no")}
    assert mended("a b c", fixes) == "long  c"
