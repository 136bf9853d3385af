from __future__ import annotations

from typing import Any

import pytest

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.watchdogs import alert
from specwatch.config import load
from specwatch.errors import InputError
from specwatch.generate.rules_config import LIMIT, RULES, Audience, RulesConfig

LOW = "SpeculativeAcceptanceRateLow"
SLOWER = "SpeculationSlowerThanNone"


def refusal(**entries: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(RulesConfig, None, entries)
    return str(caught.value)


def test_the_catalogue_holds_unless_something_is_chosen():
    config = RulesConfig()
    for entry in RULES:
        assert config.threshold(entry) == entry.threshold
        assert config.severity(entry) is entry.severity


def test_thresholds_and_severities_are_chosen_by_alert():
    config = RulesConfig(thresholds={LOW: 0.4}, severities={LOW: Severity.PAGE})
    assert config.threshold(alert(LOW)) == 0.4
    assert config.severity(alert(LOW)) is Severity.PAGE
    assert config.threshold(alert(SLOWER)) == 1.0


def test_sixty_per_cent_is_refused_with_the_ratio_that_was_meant():
    assert "60 is no ratio from 0 to 1; write 0.6 for 60 %" in refusal(thresholds={LOW: 60})


@pytest.mark.parametrize("value", [0, -0.5, "nan", "inf", 1000])
def test_other_impossible_thresholds_are_refused(value: Any):
    assert LOW in refusal(thresholds={LOW: value})


def test_a_threshold_that_the_drift_score_never_reaches_is_refused():
    assert "more than 1.5" in refusal(thresholds={"SpeculationDrifted": 3})


@pytest.mark.parametrize(
    "name", ["SpeculationTargetDown", "SpeculationNoTargets", "SpecwatchSidecarDown", "SpecwatchSidecarGone"]
)
def test_an_alert_on_a_state_has_no_threshold_to_set(name: str):
    assert f"{name} has no threshold to set" in refusal(thresholds={name: 0.5})


@pytest.mark.parametrize("key", ["thresholds", "severities"])
def test_an_unknown_alert_is_refused_with_the_nearest_one(key: str):
    value = {"thresholds": 0.5, "severities": "page"}[key]
    assert f"did you mean {LOW}?" in refusal(**{key: {"AcceptanceRateLow": value}})


def test_an_unknown_key_is_refused_with_the_nearest_one():
    assert "vlm_job: unknown; did you mean vllm_job?" in refusal(vlm_job="x")


def test_an_unknown_severity_is_refused_with_the_known_ones():
    assert "'page' or 'ticket', got 'pager'" in refusal(severities={LOW: "pager"})


def test_every_bad_entry_is_named_at_once():
    text = refusal(thresholds={LOW: 60, SLOWER: -1}, vllm_job="", time_scale=2)
    for word in (LOW, SLOWER, "vllm_job", "time_scale"):
        assert word in text


@pytest.mark.parametrize(("written", "seconds"), [("5m", 300), ("150s", 150), ("1h", 3600), (300, 300), ("120", 120)])
def test_durations_are_written_as_in_prometheus_or_in_seconds(written: Any, seconds: float):
    assert load(RulesConfig, None, {"rate_window": written}).rate_window == seconds


@pytest.mark.parametrize("written", ["5 minutes", "m5", "-5m", 0, "2d"])
def test_other_durations_are_refused(written: Any):
    assert "rate_window" in refusal(rate_window=written)


def test_a_window_that_one_missed_scrape_would_empty_is_refused():
    assert "at least 4 times the interval of 30 s" in refusal(rate_window="1m")


@pytest.mark.parametrize("name", ["job", "model_name", "engine", "position", "alertname", "9lives", "a-b"])
def test_targets_cannot_be_chosen_by_labels_that_the_rules_use_themselves(name: str):
    assert f"'{name}' cannot choose targets" in refusal(target_labels={name: "x"})


@pytest.mark.parametrize("key", ["runbook_base", "dashboard_url", "pagerduty_url", "webhook_url", "heartbeat_url"])
@pytest.mark.parametrize(
    "address", ["grafana.example/d/x", "javascript:alert(1)", "http://a b", "https://x/{{ .Evil }}"]
)
def test_an_address_must_be_one(key: str, address: str):
    assert f"{key}: write an address" in refusal(**{key: address})


def test_a_rule_that_could_never_fire_is_refused():
    assert "could never fire" in refusal(draft_cost=0.0001, thresholds={SLOWER: 0.9})


def test_a_limit_turns_its_alert_on():
    assert LIMIT not in RulesConfig().alerts
    assert RulesConfig(max_spec_concurrency=32).threshold(LIMIT) == 32
    assert LIMIT in RulesConfig(thresholds={LIMIT.name: 16}).alerts


@pytest.mark.parametrize("name", ["severity", "job", "alertname", "a-b"])
def test_labels_that_the_rules_use_themselves_cannot_be_put_on_alerts(name: str):
    assert f"{name!r} cannot be put on alerts" in refusal(alert_labels={name: "x"})


def test_a_label_that_prometheus_would_expand_is_refused():
    assert "as a template" in refusal(alert_labels={"team": "{{ $value }}"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("weekdays", "such as monday:friday 08:00-18:00"),
        ("monday:fryday 08:00-18:00", "no days of one week"),
        ("friday:monday 08:00-18:00", "it begins with monday"),
        ("monday:friday 18:00-08:00", "no hours of one day"),
        ("monday:friday 08:00-25:00", "no hours of one day"),
        ("monday:friday 08:00-18:00 Europe/Berlinn", "did you mean Europe/Berlin?"),
        ("monday:sunday 00:00-24:00", "all hours of the week"),
    ],
)
def test_hours_that_are_none_are_refused_with_what_was_meant(written: str, meant: str):
    assert meant in refusal(ticket_hours=written)


def test_hours_without_a_zone_are_utc():
    assert str(load(RulesConfig, None, {"ticket_hours": "monday 08:00-18:00"}).ticket_hours) == (
        "monday:monday 08:00-18:00 UTC"
    )


@pytest.mark.parametrize("key", ["model_teams", "team_slack_url_files"])
def test_a_team_that_cannot_be_part_of_a_receivers_name_is_refused_with_one_that_can(key: str):
    value = {"m": "Search Team"} if key == "model_teams" else {"Search Team": "/x"}
    assert "did you mean search-team?" in refusal(**{key: value})


@pytest.mark.parametrize("k", [0, 65, "five"])
def test_a_k_that_no_server_has_is_refused(k: Any):
    assert "v0_num_speculative_tokens" in refusal(v0_num_speculative_tokens=k)


@pytest.mark.parametrize("severity", Severity)
def test_alerts_that_nobody_would_get_are_refused(severity: Severity):
    others = (Audience.PAGE if severity is Severity.TICKET else Audience.TICKET).value
    text = refusal(slack_for=others, pagerduty_for="none")
    assert f"nobody would get alerts of severity {severity.value}" in text
    assert load(RulesConfig, None, {"slack_for": others, "pagerduty_for": severity.value})


@pytest.mark.parametrize("audience", Audience)
def test_an_audience_includes_the_severities_that_it_names(audience: Audience):
    included = [severity.value for severity in Severity if audience.includes(severity)]
    assert included == {"all": ["page", "ticket"], "none": []}.get(audience.value, [audience.value])
