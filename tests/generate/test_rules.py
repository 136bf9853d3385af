from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from specwatch.alerting.catalogue import ALERTS, Alert, Severity
from specwatch.alerting.watchdogs import HEARTBEAT, alert
from specwatch.generate import alert_files
from specwatch.generate.alert_subjects import subject_of
from specwatch.generate.files import differing, write_all
from specwatch.generate.promql import Level
from specwatch.generate.recording_rules import CORE, LONG, TREND, WINDOWS, recording, recording_rules
from specwatch.generate.rule_published import PUBLISHED
from specwatch.generate.rules import RUNBOOKS, alerting_rule, groups
from specwatch.generate.rules_config import LIMIT, RULES, RulesConfig
from specwatch.signals.catalogue import signals
from tests.support.programs import ROOT, finish, run
from tests.support.services import newer_program, promtool

PROMTOOL_SECONDS = 600
"""Until its tests are taken to hang: they take it 30 s alone, and minutes where six programs share two cores."""

DEFAULT = RulesConfig()
LIMITED = RulesConfig(max_spec_concurrency=32)
"""With the alert that is off until its limit is chosen."""
LINKED = RulesConfig(
    max_spec_concurrency=32,
    runbook_base="https://docs.example/runbooks/",
    dashboard_url="https://grafana.example/d/specwatch",
)

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
    names = [rule["alert"] for group in groups(LIMITED) for rule in group["rules"] if "alert" in rule]
    assert names == [*(entry.name for entry in RULES), HEARTBEAT.name]


def test_an_alert_without_a_limit_is_not_generated():
    names = [rule.get("alert") for group in groups(DEFAULT) for rule in group["rules"]]
    assert LIMIT.name not in names
    assert len([name for name in names if name]) == len(RULES)


def test_every_signal_is_recorded_at_every_level():
    recorded = [rule["record"] for rule in recording_rules(DEFAULT)]
    assert len(recorded) == len(set(recorded))
    for level in (Level.INSTANCE, Level.MODEL, Level.FLEET):
        names = {recording(DEFAULT).signal(signal, level) for signal in signals() if signal.in_promql}
        assert names <= set(recorded)


def test_what_the_draft_brings_is_recorded_for_engines_and_over_long_windows_too():
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    for name in CORE:
        assert f"engine:specwatch_{name}:ratio_rate5m" in recorded
        for level in ("instance", "model", "fleet"):
            assert {f"{level}:specwatch_{name}:ratio_rate{window}" for window in ("30m", "6h")} <= recorded


def test_numerators_and_denominators_are_recorded_apart():
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    for window in ("5m", "30m", "6h"):
        for level in ("instance", "model", "fleet"):
            for counter in ("drafts", "draft_tokens", "accepted_tokens"):
                assert f"{level}:vllm_spec_decode_{counter}:rate{window}" in recorded


def test_the_cache_is_read_under_both_its_names():
    rules = {rule["record"]: rule["expr"] for rule in recording_rules(DEFAULT)}
    expression = rules["instance:vllm_kv_cache_usage_perc:max_avg5m"]
    assert expression.index("vllm:kv_cache_usage_perc") < expression.index("vllm:gpu_cache_usage_perc")


def test_v0_is_recorded_from_its_efficiency_once_k_is_known_and_by_server_alone():
    rules = {rule["record"]: rule["expr"] for rule in recording_rules(RulesConfig(v0_num_speculative_tokens=4))}
    reading = sorted(name for name, expression in rules.items() if "vllm:spec_decode_efficiency" in expression)
    assert reading == [f"instance:specwatch_acceptance_{name}:ratio_rate5m" for name in ("length", "rate")]
    assert "spec_decode_efficiency" not in "".join(rule["expr"] for rule in recording_rules(DEFAULT))


def test_every_rule_comes_after_those_it_reads():
    known: set[str] = set()
    for rule in recording_rules(DEFAULT):
        assert set(re.findall(r"\b(?:engine|instance|model|fleet):[\w:]+", rule["expr"])) <= known
        known.add(rule["record"])


@each_alert
def test_an_alert_reads_recorded_series_or_prometheus_own(entry: Alert):
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    expression = alerting_rule(entry, LIMITED)["expr"]
    assert set(re.findall(r"\b(?:engine|instance|model|fleet):[\w:]+", expression)) <= recorded
    assert ("vllm:" in expression) == (entry.name == "SpeculationMetricsAbsent")


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
    seconds = {"30s": "3s", "5m": "30s", "10m": "1m", "2m": "12s", "1m": "6s", "15m": "90s", "30m": "3m", "1h": "6m"}
    seconds |= {"6h": "36m", "1d": "144m"}
    assert [seconds[text] for text in whole] == tenth


def test_every_alert_has_its_runbook_and_every_runbook_its_alert():
    runbooks = {path.name for path in (ROOT / RUNBOOKS).iterdir()}
    assert runbooks == {entry.runbook for entry in (*RULES, HEARTBEAT)}


@pytest.mark.parametrize("entry", [*RULES, HEARTBEAT], ids=lambda entry: entry.name)
def test_a_runbook_says_what_it_means_what_it_costs_how_to_look_and_what_to_do(entry: Alert):
    text = (ROOT / RUNBOOKS / entry.runbook).read_text()
    headings = re.findall(r"^#+ .*$", text, flags=re.MULTILINE)
    assert headings == [f"# {entry.name}", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]


def runbook_queries() -> list[str]:
    """Every expression that a runbook prints."""
    texts = [(ROOT / RUNBOOKS / entry.runbook).read_text() for entry in (*RULES, HEARTBEAT)]
    return [query for text in texts for query in re.findall(r"```promql\n(.*?)\n```", text, flags=re.DOTALL)]


def test_runbooks_ask_for_what_the_rules_record():
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    asked = {
        name for query in runbook_queries() for name in re.findall(r"\b(?:engine|instance|model|fleet):[\w:]+", query)
    }
    assert asked
    assert asked <= recorded


@pytest.mark.services
@pytest.mark.timeout(PROMTOOL_SECONDS)
def test_runbooks_hold_valid_promql(tmp_path: Path):
    rules = [{"record": "x", "expr": query} for query in runbook_queries()]
    # Two rules of one name would be refused for that alone.
    document = {"groups": [{"name": f"g{number}", "rules": [rule]} for number, rule in enumerate(rules)]}
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(document))
    assert "FAILED" not in run([promtool(), "check", "rules", tmp_path / "rules.yml"]).stdout


CHOICES = {
    "as they come": DEFAULT,
    "rehearsed, with links": LINKED.model_copy(update={"time_scale": 0.05}),
    "a small fraction of a second": RulesConfig(time_scale=0.013, interval=25.0, rate_window=120.0),
    "an hour's window": RulesConfig(rate_window=3600.0, interval=300.0),
    "hard names": RulesConfig(
        vllm_job='a "b" \\ ü $1',
        specwatch_job="s'w",
        target_labels={"namespace": 'pro"d'},
        alert_labels={"team": "search"},
        max_spec_concurrency=32,
        v0_num_speculative_tokens=4,
    ),
    "other thresholds": RulesConfig(
        draft_cost=0.001,
        thresholds={
            "SpeculativeAcceptanceRateLow": 0.333,
            "SpeculationSlowerThanNone": 0.99,
            "SpeculationDrifted": 1.25,
            "SpeculationNotDrafting": 0.5,
            "SpeculationLastPositionsWasted": 1.5,
            "SpeculationBelowLastWeek": 0.5,
            "SpeculationReplicaOff": 0.9,
            "SpeculationMetricsAbsent": 2,
            "SpeculationMetricsMangled": 3,
            "SpeculationPastConcurrencyLimit": 2.5,
        },
        severities={"SpeculationTargetDown": Severity.TICKET, "SpeculativeAcceptanceRateLow": Severity.PAGE},
    ),
}
TEST_FILES = (alert_files.TESTS, alert_files.WEEK_TESTS)


@pytest.mark.services
@pytest.mark.timeout(PROMTOOL_SECONDS)
@pytest.mark.parametrize("config", CHOICES.values(), ids=CHOICES)
def test_promtool_accepts_the_rules_and_passes_their_tests(config: RulesConfig, tmp_path: Path):
    write_all(tmp_path, alert_files.alert_files(config))
    run([promtool(), "check", "rules", "--lint=all", "--lint-fatal", tmp_path / alert_files.RULES])
    run([promtool(), "test", "rules", *TEST_FILES], cwd=tmp_path)


@pytest.mark.services
@pytest.mark.timeout(PROMTOOL_SECONDS)
def test_a_newer_promtool_accepts_the_rules_and_passes_their_tests(tmp_path: Path):
    tool = newer_program("promtool")
    write_all(tmp_path, alert_files.alert_files(CHOICES["hard names"]))
    run([tool, "check", "rules", "--lint=all", "--lint-fatal", tmp_path / alert_files.RULES])
    run([tool, "test", "rules", *TEST_FILES], cwd=tmp_path)


def written_tests(config: RulesConfig) -> dict[str, dict[str, Any]]:
    """Every test of both files by name."""
    files = alert_files.alert_files(config)
    return {test["name"]: test for name in TEST_FILES for test in yaml.safe_load(files[name])["tests"]}


def fires(test: dict[str, Any], entry: Alert) -> list[bool]:
    """Whether a test expects the alert, at each time that it asks for it."""
    return [bool(case["exp_alerts"]) for case in test.get("alert_rule_test", []) if case["alertname"] == entry.name]


@each_alert
def test_every_alert_is_tested_to_fire_with_all_it_says_and_to_be_silent_just_before(entry: Alert):
    test = written_tests(LINKED)[f"{entry.name} fires when it should, and not before"]
    *before, last = fires(test, entry)
    assert last
    assert not any(before)
    assert before or not entry.for_seconds
    (told,) = [case["exp_alerts"][0] for case in test["alert_rule_test"] if case["exp_alerts"]]
    assert told["exp_labels"]["severity"] == entry.severity.value
    assert list(told["exp_annotations"]) == ["summary", "description", "runbook_url", "dashboard_url"]


HARMLESS = (
    "a healthy server that restarts",
    "a server that falls idle",
    "a server that never served",
    "a server of many engines, one of which accepts hardly anything",
    "a server of many engines, of which one works",
    "a server whose K changes",
    "replicas of other K, alike at the first position",
    "a server without speculation beside one that speculates",
    "a V0 server, whose speculation counters are corrupt",
    "a sidecar that is deployed anew",
)


@each_alert
@pytest.mark.parametrize("what", HARMLESS)
def test_every_alert_is_tested_to_be_silent_on_harmless_servers(entry: Alert, what: str):
    assert fires(written_tests_of_limited()[f"Nothing fires on {what}"], entry) == [False, False]


@cache
def written_tests_of_limited() -> dict[str, dict[str, Any]]:
    return written_tests(LIMITED)


def test_the_heartbeat_is_tested_too():
    assert f"{HEARTBEAT.name} always fires" in written_tests(DEFAULT)


def of_published(config: RulesConfig) -> dict[str, Any]:
    return written_tests(config)["Published configurations, all of them faster with speculation, are judged by speed"]


@pytest.mark.services
@pytest.mark.parametrize("cost", sorted({cost for *_, cost in PUBLISHED}))
def test_published_configurations_that_are_faster_with_speculation_raise_no_alert_but_low_acceptance(
    cost: float, tmp_path: Path
):
    config = RulesConfig(draft_cost=cost)
    test = of_published(config)
    theirs = [name for name, *_, own in PUBLISHED if own == cost]
    for case in test["alert_rule_test"]:
        case["exp_alerts"] = [alarm for alarm in case["exp_alerts"] if alarm["exp_labels"]["model_name"] in theirs]
        low = case["alertname"] == "SpeculativeAcceptanceRateLow"
        assert len(case["exp_alerts"]) == (len(theirs) if low else 0)
    test["input_series"] = [
        series
        for series in test["input_series"]
        if "model_name=" not in series["series"] or any(f'model_name="{name}"' in series["series"] for name in theirs)
    ]
    only(tmp_path, config, [test])
    run([promtool(), "test", "rules", alert_files.TESTS], cwd=tmp_path)


def only(folder: Path, config: RulesConfig, tests: Sequence[dict[str, Any]]) -> None:
    """Write rules with these tests alone."""
    files = alert_files.alert_files(config)
    document = {**yaml.safe_load(files[alert_files.TESTS]), "tests": list(tests)}
    write_all(folder, {**files, alert_files.TESTS: yaml.safe_dump(document)})


def failures(folder: Path, rules: list[dict[str, Any]], part: str) -> str:
    """What promtool says of the tests with ``part`` in their names when the rules are these."""
    only(
        folder,
        LIMITED,
        [test for name, test in written_tests_of_limited().items() if part in name and "Week" not in name],
    )
    (folder / alert_files.RULES).write_text(yaml.safe_dump({"groups": rules}))
    done = finish([promtool(), "test", "rules", *TEST_FILES], cwd=folder)
    return done.stdout + done.stderr


CHANGES = {
    "never fires": {"expr": "vector(0) > 1"},
    "fires on anything": {"expr": "vector(1)", "for": "0s"},
    "fires too early": {"for": "0s"},
    "fires too late": {"for": "3h"},
    "lacks a label": {"labels": {}},
    "lacks its texts": {"annotations": {}},
}


@pytest.mark.services
@pytest.mark.timeout(PROMTOOL_SECONDS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_promtools_tests_notice_an_alert_that_is_changed(change: dict[str, Any], tmp_path: Path):
    changed = groups(LIMITED)
    for rule in changed[-1]["rules"]:
        rule.update(change)
    said = failures(tmp_path, changed, "fires when it should")
    for entry in RULES:
        can_be_early = change != CHANGES["fires too early"] or entry.for_seconds
        assert (f"alertname: {entry.name}, " in said) == bool(can_be_early), entry.name


@pytest.mark.services
def test_promtools_tests_notice_a_page_that_asks_one_window_alone(tmp_path: Path):
    changed = groups(LIMITED)
    for rule in changed[-1]["rules"]:
        if rule["alert"] == "SpeculationSlowerThanNone":
            rule["expr"] = rule["expr"].replace("rate30m", "rate5m")
    assert "FAILED" in failures(tmp_path, changed, "rides out a blip")


@pytest.mark.services
def test_promtools_tests_notice_a_signal_that_is_recorded_wrongly(tmp_path: Path):
    recorded = {rule["record"] for rule in recording_rules(DEFAULT)}
    names = {recording(DEFAULT).signal(signal, level) for signal in signals() for level in Level}
    names |= {
        recording(DEFAULT, window).signal(signal, level)
        for window in (LONG, TREND)
        for signal in signals()
        if signal.name in CORE
        for level in Level
    }
    names &= recorded
    changed = groups(LIMITED)
    for group in changed[: len(WINDOWS)]:
        for rule in group["rules"]:
            if rule["record"] in names:
                rule["expr"] = f"1.01 * ({rule['expr']}) + 1"
    said = failures(tmp_path, changed, "Recorded signals")
    for name in names:
        assert f"round({name}, 1e-6)" in said
