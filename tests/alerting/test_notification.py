"""What people are told, before any service shapes it."""

from __future__ import annotations

import pytest

from specwatch.alerting.catalogue import ALERTS, alert
from specwatch.alerting.evaluation import AlertEvaluator, Transition
from specwatch.alerting.notification import KEY_LENGTH, Link, Notification, Places, alert_key, utc
from tests.support.notifications import AT, notification, with_any_name

BAD = {"target_up": 1.0, "acceptance_rate": 0.5, "draft_throughput": 100.0}


def low(target: str = "gpu-3") -> Transition:
    evaluator = AlertEvaluator((alert("SpeculativeAcceptanceRateLow"),), time_scale=0)
    return evaluator.evaluate(AT, target=target, model="llama", values=BAD)[0]


def test_a_transition_becomes_a_message_with_links_to_the_runbook_and_the_page():
    places = Places(page="http://127.0.0.1:9108/", runbooks="https://example.com/docs/runbooks/")

    message = Notification.of(low(), places)

    assert message.firing
    assert (message.value, message.condition) == ("50%", "below 60%")
    assert message.links == (
        Link("Runbook", "https://example.com/docs/runbooks/SpeculativeAcceptanceRateLow.md"),
        Link("Status page", "http://127.0.0.1:9108/"),
    )


def test_without_places_a_message_has_no_links():
    assert Notification.of(low()).links == ()


def test_the_title_says_whether_it_fires():
    assert notification().title == "Firing: Draft acceptance is low on gpu-3"
    assert notification(firing=False).title == "Resolved: Draft acceptance is low on gpu-3"


def test_firing_and_resolved_have_one_key_and_other_targets_and_alerts_another():
    evaluator = AlertEvaluator((alert("SpeculativeAcceptanceRateLow"),), time_scale=0)
    fired = evaluator.evaluate(AT, target="gpu-3", model="llama", values=BAD)[0]
    resolved = evaluator.evaluate(AT + 60, target="gpu-3", model="another", values={**BAD, "acceptance_rate": 0.9})[0]

    assert Notification.of(fired).key == Notification.of(resolved).key
    keys = {alert_key(entry.name, target) for entry in ALERTS for target in ("gpu-3", "gpu-4")}
    assert len(keys) == 2 * len(ALERTS)


@with_any_name
def test_a_key_is_short_and_printable_whatever_the_name(name: str):
    key = alert_key("SpeculativeAcceptanceRateLow", name)

    assert len(key) <= KEY_LENGTH
    assert key.isprintable()


def test_long_names_that_differ_at_their_end_have_different_keys():
    assert alert_key("Low", "x" * 10_000 + "1") != alert_key("Low", "x" * 10_000 + "2")


def test_names_that_differ_in_unprintable_characters_have_different_keys():
    assert alert_key("Low", "a\x00") != alert_key("Low", "a\x01")


def test_a_moment_is_shown_in_utc():
    assert utc(AT) == "2025-11-29 16:21 UTC"


@pytest.mark.parametrize("entry", ALERTS, ids=lambda entry: entry.name)
def test_every_alert_of_the_catalogue_can_be_told(entry):
    values = {"target_up": 1.0, "draft_throughput": 10.0, "generation_throughput": 10.0}
    values[entry.signal] = entry.threshold + {"<": -0.001, ">": 0.001}.get(entry.comparison.value, 0.0)
    (fired,) = AlertEvaluator((entry,), time_scale=0).evaluate(AT, target="gpu-3", model="llama", values=values)

    message = Notification.of(fired)

    assert "gpu-3" in message.summary
    assert "gpu-3" in message.description
    assert "{" not in message.summary + message.description
