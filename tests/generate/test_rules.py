from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from specwatch.alerting.catalogue import ALERTS, Alert, Severity, alert
from specwatch.generate import alert_files
from specwatch.generate.files import differing, write_all
from specwatch.generate.promql import Level
from specwatch.generate.rules import (
    RUNBOOKS,
    alerting_rule,
    groups,
    recording,
    recording_rules,
    subject_of,
)
from specwatch.generate.rules_config import RULES, RulesConfig
from specwatch.signals.catalogue import signals
from tests.support.programs import ROOT, finish, run
from tests.support.services import promtool

DEFAULT = RulesConfig()
LINKED = RulesConfig(runbook_base="https://docs.example/runbooks/", dashboard_url="https://grafana.example/d/specwatch")

each_alert = pytest.mark.parametrize("entry", RULES, ids=lambda entry: entry.name)


def written(config: RulesConfig) -> list[dict[str, Any]]:
    """The groups as a reader of the file finds them."""
    groups_of_file: list[dict[str, Any]] = yaml.safe_load(alert_files.alert_files(config)[alert_files.RULES])["groups"]
    return groups_of_file


def durations(rules: list[dict[str, Any]]) -> Iterator[str]:
    """Every duration in groups of rules."""
    for group in rules:
        yield group["interval"]
        for rule in group["rules"]:
            yield from (rule[key] for key in ("for", "keep_firing_for") if key in rule)
            yield from re.findall(r"\[(\w+)\]", rule["expr"])


def test_the_committed_files_are_what_the_code_generates():
    files = alert_files.alert_files(DEFAULT)
    assert differing(ROOT / "alerts", files) == []
    assert sorted(path.name for path in (ROOT / "alerts").iterdir()) == sorted(files)


def test_generating_again_gives_the_same_bytes():
    assert alert_files.alert_files(LINKED) == alert_files.alert_files(LINKED)


def test_the_file_says_that_it_is_generated_and_what_was_chosen():
    text = alert_files.alert_files(RulesConfig(vllm_job="llm"))[alert_files.RULES]
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert "specwatch gen-alerts" in "\n".join(head)
    assert '# Chosen: vllm_job: "llm"' in head


def test_the_file_holds_the_rules_as_they_are():
    assert written(LINKED) == groups(LINKED)


def test_every_alert_of_the_catalogue_is_generated_once():
    names = [rule["alert"] for group in groups(DEFAULT) for rule in group["rules"] if "alert" in rule]
    assert names == [entry.name for entry in RULES]


def test_every_signal_is_recorded_at_every_level():
    recorded = [rule["record"] for rule in recording_rules(DEFAULT)]
    assert len(recorded) == len(set(recorded))
    for level in Level:
        assert {recording(DEFAULT).signal(signal, level) for signal in signals()} <= set(recorded)


def test_every_rule_comes_after_those_it_reads():
    known: set[str] = set()
    for rule in recording_rules(DEFAULT):
        assert set(re.findall(r"\b(?:instance|model):[\w:]+", rule["expr"])) <= known
        known.add(rule["record"])


@each_alert
def test_an_alert_reads_recorded_series_or_prometheus_own(entry: Alert):
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    expression = alerting_rule(entry, DEFAULT)["expr"]
    assert set(re.findall(r"\b(?:instance|model):[\w:]+", expression)) <= recorded
    assert "vllm:" not in expression


def test_drift_alone_needs_the_sidecar():
    needing = [entry.name for entry in RULES if "specwatch_drift_score" in alerting_rule(entry, DEFAULT)["expr"]]
    assert needing == ["SpeculationDrifted"]
    assert "specwatch_" not in "".join(rule["expr"].replace(":specwatch_", "") for rule in recording_rules(DEFAULT))


@each_alert
def test_an_alert_says_who_is_woken_and_what_to_do(entry: Alert):
    rule = alerting_rule(entry, LINKED)
    assert rule["labels"] == {"severity": entry.severity.value}
    assert list(rule["annotations"]) == ["summary", "description", "runbook_url", "dashboard_url"]
    assert rule["annotations"]["runbook_url"] == f"https://docs.example/runbooks/{entry.name}.md"
    assert rule["annotations"]["dashboard_url"].startswith("https://grafana.example/d/specwatch")


@each_alert
def test_no_text_names_a_label_that_the_expression_lacks(entry: Alert):
    has = set(subject_of(entry, LINKED).labels)
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(alerting_rule(entry, LINKED)["annotations"].values())))
    assert named
    assert named <= has


@each_alert
def test_no_field_of_the_catalogue_is_left_open(entry: Alert):
    for text in alerting_rule(entry, LINKED)["annotations"].values():
        assert not re.search(r"(?<!\{)\{\w+\}", text)


def test_values_are_written_as_percentages_where_the_catalogue_says_so():
    low = alerting_rule(alert("SpeculativeAcceptanceRateLow"), DEFAULT)["annotations"]["description"]
    assert "{{ $value | humanizePercentage }}" in low
    assert "below 60%" in low
    slower = alerting_rule(alert("SpeculationSlowerThanNone"), DEFAULT)["annotations"]["description"]
    # humanize would write 0.85 as 850m.
    assert '{{ $value | printf "%.3g" }}' in slower


def test_alerts_on_traffic_ask_for_traffic():
    for entry in ALERTS:
        expression = alerting_rule(entry, DEFAULT)["expr"]
        assert ("vllm_spec_decode_draft_tokens:rate5m >= 0.5" in expression) == bool(entry.min_draft_rate)
        assert ("vllm_generation_tokens:rate5m >= 0.5" in expression) == bool(entry.min_generation_rate)


def test_no_targets_at_all_is_asked_of_absent_and_not_of_a_comparison():
    assert "absent(up{" in alerting_rule(alert("SpeculationNoTargets"), DEFAULT)["expr"]


def test_a_threshold_reaches_expression_and_text():
    rule = alerting_rule(
        alert("SpeculativeAcceptanceRateLow"), RulesConfig(thresholds={"SpeculativeAcceptanceRateLow": 0.45})
    )
    assert "< 0.45\n" in rule["expr"]
    assert "below 45%" in rule["annotations"]["description"]


def test_a_severity_reaches_the_label():
    config = RulesConfig(severities={"SpeculativeAcceptanceRateLow": Severity.PAGE})
    assert alerting_rule(alert("SpeculativeAcceptanceRateLow"), config)["labels"] == {"severity": "page"}


def test_jobs_and_labels_of_the_targets_reach_every_raw_series():
    config = RulesConfig(vllm_job='a "b"', specwatch_job="sw", target_labels={"namespace": "prod"})
    expressions = [rule["expr"] for group in groups(config) for rule in group["rules"]]
    for expression in expressions:
        for selector in re.findall(r"(?:vllm:\w+|\bup)\{([^}]*)\}", expression):
            assert selector.startswith(('job="a \\"b\\"", namespace="prod"', 'job="sw"'))


def test_the_draft_cost_reaches_the_estimated_speedup():
    rules = {rule["record"]: rule["expr"] for rule in recording_rules(RulesConfig(draft_cost=0.2))}
    assert "0.2 * instance:vllm_spec_decode_draft_tokens" in rules["instance:specwatch_estimated_speedup:ratio_rate5m"]


def test_every_duration_is_scaled():
    whole, tenth = list(durations(groups(DEFAULT))), list(durations(groups(RulesConfig(time_scale=0.1))))
    seconds = {"30s": "3s", "5m": "30s", "10m": "1m", "2m": "12s", "1m": "6s"}
    assert [seconds[text] for text in whole] == tenth


def test_every_alert_has_its_runbook_and_every_runbook_its_alert():
    runbooks = {path.name for path in (ROOT / RUNBOOKS).iterdir()}
    assert runbooks == {entry.runbook for entry in RULES}


@each_alert
def test_a_runbook_says_what_it_means_what_it_costs_how_to_look_and_what_to_do(entry: Alert):
    text = (ROOT / RUNBOOKS / entry.runbook).read_text()
    headings = re.findall(r"^#+ .*$", text, flags=re.MULTILINE)
    assert headings == [f"# {entry.name}", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]


def runbook_queries() -> list[str]:
    """Every expression that a runbook prints."""
    texts = [(ROOT / RUNBOOKS / entry.runbook).read_text() for entry in RULES]
    return [query for text in texts for query in re.findall(r"```promql\n(.*?)\n```", text, flags=re.DOTALL)]


def test_runbooks_ask_for_what_the_rules_record():
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    asked = {name for query in runbook_queries() for name in re.findall(r"\b(?:instance|model):[\w:]+", query)}
    assert asked
    assert asked <= recorded


@pytest.mark.services
def test_runbooks_hold_valid_promql(tmp_path: Path):
    rules = [{"record": "x", "expr": query} for query in runbook_queries()]
    # Two rules of one name would be refused for that alone.
    document = {"groups": [{"name": f"g{number}", "rules": [rule]} for number, rule in enumerate(rules)]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(document))
    assert "FAILED" not in run([promtool(), "check", "rules", tmp_path / "rules.yml"]).stdout


CHOICES = {
    "as they come": DEFAULT,
    "with links": LINKED,
    "rehearsed": RulesConfig(time_scale=0.05),
    "a small fraction of a second": RulesConfig(time_scale=0.013, interval=25.0, rate_window=120.0),
    "an hour's window": RulesConfig(rate_window=3600.0, interval=60.0),
    "hard names": RulesConfig(vllm_job='a "b" \\ ü $1', specwatch_job="s'w", target_labels={"namespace": 'pro"d'}),
    "other thresholds": RulesConfig(
        draft_cost=0.001,
        thresholds={
            "SpeculativeAcceptanceRateLow": 0.333,
            "SpeculationSlowerThanNone": 0.99,
            "SpeculationDrifted": 1.25,
            "SpeculationNotDrafting": 0.5,
        },
        severities={"SpeculationTargetDown": Severity.TICKET, "SpeculativeAcceptanceRateLow": Severity.PAGE},
    ),
}


@pytest.mark.services
@pytest.mark.parametrize("config", CHOICES.values(), ids=CHOICES)
def test_promtool_accepts_the_rules_and_passes_their_tests(config: RulesConfig, tmp_path: Path):
    write_all(tmp_path, alert_files.alert_files(config))
    run([promtool(), "check", "rules", "--lint=all", "--lint-fatal", tmp_path / alert_files.RULES])
    run([promtool(), "test", "rules", alert_files.TESTS], cwd=tmp_path)


@each_alert
def test_every_alert_is_tested_to_fire_and_to_be_silent_just_before_and_on_harmless_servers(entry: Alert):
    tests = yaml.safe_load(alert_files.alert_files(DEFAULT)[alert_files.TESTS])["tests"]
    expected = {test["name"]: [] for test in tests}
    for test in tests:
        for case in test.get("alert_rule_test", []):
            if case["alertname"] == entry.name:
                expected[test["name"]].append(bool(case["exp_alerts"]))
    assert expected.pop(f"{entry.name} fires when it should, and not before") == [False, True]
    silent = [name for name, fires in expected.items() if fires == [False, False]]
    assert len(silent) == len([name for name in expected if name.startswith("Nothing fires on")]) >= 5


def failures(folder: Path, rules: list[dict[str, Any]]) -> str:
    """What promtool says of its tests when the rules are these."""
    text = yaml.safe_dump({"groups": rules})
    write_all(folder, {**alert_files.alert_files(DEFAULT), alert_files.RULES: text})
    done = finish([promtool(), "test", "rules", alert_files.TESTS], cwd=folder)
    return done.stdout + done.stderr


CHANGES = {
    "never fires": {"expr": "vector(0) > 1"},
    "fires on anything": {"expr": "vector(1)", "for": "0s"},
    "fires too early": {"for": "0s"},
    "fires too late": {"for": "11m"},
    "lacks a label": {"labels": {}},
    "lacks its texts": {"annotations": {}},
}


@pytest.mark.services
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_promtools_tests_notice_an_alert_that_is_changed(change: dict[str, Any], tmp_path: Path):
    changed = groups(DEFAULT)
    for rule in changed[1]["rules"]:
        rule.update(change)
    said = failures(tmp_path, changed)
    for entry in RULES:
        can_be_early = change != CHANGES["fires too early"] or entry.for_seconds
        assert (f"alertname: {entry.name}, " in said) == bool(can_be_early), entry.name


@pytest.mark.services
def test_promtools_tests_notice_a_signal_that_is_recorded_wrongly(tmp_path: Path):
    names = {recording(DEFAULT).signal(signal, level) for signal in signals() for level in Level}
    changed = groups(DEFAULT)
    for rule in changed[0]["rules"]:
        if rule["record"] in names:
            rule["expr"] = f"1.01 * ({rule['expr']}) + 1"
    said = failures(tmp_path, changed)
    for name in names:
        assert f"round({name}, 1e-6)" in said
