"""What people are told, before any service shapes it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specwatch.alerting.catalogue import ALERTS, alert, over_long_window
from specwatch.alerting.evaluation import AlertEvaluator, Ending, State, Transition
from specwatch.alerting.incidents import KEY_LENGTH, News, alert_key
from specwatch.alerting.notification import MOST_SERVERS, Link, Notification, Places, other, utc
from specwatch.alerting.sparkline import Course
from specwatch.alerting.text import clean
from tests.support.notifications import AT, COURSE, notification, server_news, with_any_name

BAD = {"target_up": 1.0, "acceptance_rate": 0.5, "draft_throughput": 100.0}


def low(target: str = "gpu-3") -> Transition:
    evaluator = AlertEvaluator((alert("SpeculativeAcceptanceRateLow"),), time_scale=0)
    return evaluator.evaluate(AT, target=target, model="llama", values=BAD)[0]


def over(target: str = "gpu-3") -> Transition:
    return replace(low(target), state=State.RESOLVED, ending=Ending.CLEARED, at=AT + 600)


def test_an_incident_becomes_a_message_with_links_to_the_runbook_and_the_page():
    places = Places(page="http://127.0.0.1:9108/", runbooks="https://example.com/docs/runbooks/")

    message = Notification.of(News("key", (low(),), ()), places, "The traffic changed.")

    assert message.firing
    assert (message.first.value, message.condition, message.diagnosis) == ("50%", "below 60%", "The traffic changed.")
    assert message.links == (
        Link("Runbook", "https://example.com/docs/runbooks/SpeculativeAcceptanceRateLow.md"),
        Link("Status page", "http://127.0.0.1:9108/"),
    )


def test_a_message_about_several_servers_speaks_of_the_first_that_fires_and_lists_the_others():
    message = Notification.of(News("key", (low("a"), low("b")), (over("c"),)))

    assert message.title == "Firing: Draft acceptance is low on a, and on 1 more"
    assert [other(server) for server in message.others] == [
        "b: 50% since 2025-11-29 16:21 UTC",
        "c: over since 2025-11-29 16:31 UTC",
    ]


def test_the_end_of_an_incident_speaks_of_the_last_that_recovered():
    message = Notification.of(News("key", (), (over("a"), over("b"))), diagnosis="The traffic changed.")

    assert message.title == "Resolved: Draft acceptance is low on b, and on 1 more"
    assert message.diagnosis == ""


def test_a_message_about_a_thousand_servers_says_how_many_it_leaves_out():
    message = Notification.of(News("key", tuple(low(f"gpu-{number}") for number in range(1000)), ()))

    assert (1 + len(message.others), message.left_out) == (MOST_SERVERS, 1000 - MOST_SERVERS)
    assert message.summary.endswith("and on 999 more")


@with_any_name
def test_a_server_in_a_list_is_one_short_line_whatever_its_name(name: str):
    line = other(server_news(name))

    assert len(line) < 150
    assert clean(line) == line


def test_without_places_a_message_has_no_links():
    assert Notification.of(News("key", (low(),), ())).links == ()


def test_the_title_says_whether_it_fires():
    assert notification().title == "Firing: Draft acceptance is low on gpu-3"
    assert notification(firing=False).title == "Resolved: Draft acceptance is low on gpu-3"


def test_other_targets_and_alerts_have_another_key():
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
    values[over_long_window(entry.signal)] = values[entry.signal]
    (fired,) = AlertEvaluator((entry,), time_scale=0).evaluate(AT, target="gpu-3", model="llama", values=values)

    message = Notification.of(News("key", (fired,), ()))

    assert "gpu-3" in message.summary
    assert "gpu-3" in message.first.description
    assert "{" not in message.summary + message.first.description


@pytest.mark.parametrize("course", [None, COURSE], ids=["without a past", "with a past"])
def test_a_message_that_was_kept_is_the_same_again(course: Course | None):
    message = notification(others=(server_news("b", firing=False),), diagnosis="Why.", course=course)

    assert Notification.decoded(message.encoded()) == message


def test_a_message_that_an_earlier_release_kept_is_read():
    kept = json.loads(notification().encoded())
    del kept["course"]

    assert Notification.decoded(json.dumps(kept)) == notification()
