"""Events for PagerDuty: what they say, and that no name breaks them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from specwatch.alerting import pagerduty
from specwatch.alerting.catalogue import Severity
from specwatch.alerting.notification import Link, Notification
from specwatch.lab.sink_limits import pagerduty_errors
from tests.support.notifications import COURSE, FELL, absurd, notification, server_news, with_any_name

KEY = "0123456789abcdef0123456789ABCDEF"


def errors(event: dict[str, Any]) -> list[str]:
    return pagerduty_errors(event, len(json.dumps(event).encode()))


def trigger(message: Notification) -> dict[str, Any]:
    return pagerduty.payload(message, KEY)


def test_the_diagnosis_is_among_the_details():
    event = trigger(notification(diagnosis="Only gpu-3 fell."))
    assert event["payload"]["custom_details"]["diagnosis"] == "Only gpu-3 fell."


def test_the_last_hours_are_among_the_details():
    event = trigger(notification(course=COURSE))
    assert event["payload"]["custom_details"]["lately"] == f"Acceptance rate, 3 h by 5 min: {FELL}"


def test_an_event_says_what_where_since_when_how_bad_what_to_do_and_where_to_read_on():
    event = trigger(notification())

    assert event["routing_key"] == KEY
    assert event["event_action"] == "trigger"
    assert event["payload"] == {
        "summary": "Draft acceptance is low on gpu-3",
        "source": "gpu-3",
        "severity": "warning",
        "timestamp": "2025-11-29T16:21:40+00:00",
        "component": "speculative decoding",
        "group": "llama",
        "class": "SpeculativeAcceptanceRateLow",
        "custom_details": {
            "what to do": "gpu-3 (llama) accepts 50% of its draft tokens, below 60%. Lower K.",
            "server": "gpu-3",
            "model": "llama",
            "value": "50%",
            "alarm": "below 60%",
            "since": "2025-11-29 16:16 UTC",
        },
    }
    assert [link["text"] for link in event["links"]] == ["Runbook", "Status page"]


@pytest.mark.parametrize(("severity", "word"), [(Severity.PAGE, "critical"), (Severity.TICKET, "warning")])
def test_a_page_is_critical_and_a_ticket_a_warning(severity: Severity, word: str):
    assert trigger(notification(severity=severity))["payload"]["severity"] == word


def test_a_resolve_has_the_key_of_its_trigger_and_nothing_else():
    assert trigger(notification(firing=False)) == {
        "routing_key": KEY,
        "event_action": "resolve",
        "dedup_key": trigger(notification())["dedup_key"],
    }


@pytest.mark.parametrize("firing", [True, False])
@with_any_name
def test_pagerduty_takes_an_event_about_any_name(name: str, firing: bool):
    event = trigger(absurd(name, firing=firing))

    assert errors(event) == []
    assert json.loads(json.dumps(event).encode()) == event


@with_any_name
def test_no_name_brings_control_characters_into_an_event(name: str):
    event = trigger(absurd(name))

    for text in (event["payload"]["summary"], event["payload"]["source"], *event["payload"]["custom_details"].values()):
        assert not any(ord(character) < 32 for character in text)


def test_the_largest_event_is_below_the_limit():
    links = tuple(Link("🙂" * 9000, "https://example.com/" + "🙂" * 1900) for _ in range(20))
    event = trigger(absurd("🙂" * 10_000, links=links, value="🙂", condition="🙂"))

    assert errors(event) == []


def test_an_address_is_never_cut():
    links = (Link("Long", "https://example.com/" + "a" * 5000), Link("Short", "https://example.com/"))

    assert [link["text"] for link in trigger(notification(links=links))["links"]] == ["Short"]


def test_only_202_is_a_success():
    assert pagerduty.accepts(202, "")
    assert not pagerduty.accepts(200, "ok")


@with_any_name
def test_an_incident_of_many_servers_stays_within_the_limits(name: str):
    others = tuple(server_news(f"{name}{number}") for number in range(99))
    event = trigger(replace(absurd(name), others=others, left_out=901))

    assert errors(event) == []
    assert event["payload"]["custom_details"]["also"]
