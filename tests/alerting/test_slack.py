"""Messages for Slack: what they say, and that no name breaks them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.alerting import slack
from specwatch.alerting.catalogue import Severity
from specwatch.alerting.notification import Link
from specwatch.lab.sink_limits import slack_refusal
from specwatch.lab.sink_text import slack_text
from tests.support.notifications import AT, COURSE, FELL, absurd, notification, server_news, with_any_name

OWN_LINKS = re.compile(r"<https?://[^<>|]+\|(Runbook|Status page)>")


def markup(part: Any) -> list[str]:
    """Every text of a message."""
    if isinstance(part, dict):
        return [text for key, value in part.items() for text in ([value] if key == "text" else [])] + [
            text for value in part.values() for text in markup(value)
        ]
    return [text for entry in part for text in markup(entry)] if isinstance(part, list) else []


def texts_of(message: dict[str, Any]) -> list[str]:
    return [text for text in markup(message) if isinstance(text, str)]


def test_a_message_says_what_where_since_when_how_bad_what_to_do_and_where_to_read_on():
    read = slack_text(slack.payload(notification()))

    assert read.title == "🟠 Firing: Draft acceptance is low on gpu-3"
    assert read.lines == (
        "Server: gpu-3",
        "Model: llama",
        "Value: 50%, alarm below 60%",
        "Since: 2025-11-29 16:16 UTC",
        "gpu-3 (llama) accepts 50% of its draft tokens, below 60%. Lower K.",
        "Runbook: https://example.com/docs/runbooks/SpeculativeAcceptanceRateLow.md  ·  "
        "Status page: http://127.0.0.1:9108/",
        "specwatch · SpeculativeAcceptanceRateLow · ticket",
    )


def test_the_diagnosis_stands_behind_what_the_alert_means():
    blocks = slack.payload(notification(diagnosis="Only gpu-3 fell <since> 14:02."))["blocks"]
    texts = [block["text"]["text"] for block in blocks if "text" in block]
    assert texts[2] == "*Diagnosis*\nOnly gpu-3 fell &lt;since&gt; 14:02."


def test_a_resolved_message_says_since_when_and_how_long_it_lasted():
    read = slack_text(slack.payload(notification(firing=False, since=AT - 3900)))

    assert read.title == "🟢 Resolved: Draft acceptance is low on gpu-3"
    assert "Resolved: 2025-11-29 16:21 UTC, after 1 h 5 min" in read.lines


def test_a_page_is_marked_otherwise_than_a_ticket():
    page = slack_text(slack.payload(notification(severity=Severity.PAGE)))

    assert page.title.startswith("🔴")


def test_the_preview_of_a_phone_is_the_title():
    message = slack.payload(notification())

    assert message["text"] == message["blocks"][0]["text"]["text"]


def test_without_links_there_is_no_empty_block():
    assert slack_refusal(slack.payload(notification(links=()))) is None


@pytest.mark.parametrize("firing", [True, False])
@with_any_name
def test_slack_takes_a_message_about_any_name(name: str, firing: bool):
    message = slack.payload(absurd(name, firing=firing))

    assert slack_refusal(message) is None
    assert json.loads(json.dumps(message).encode("utf-8")) == message


@with_any_name
def test_no_name_can_mention_link_or_break_a_line(name: str):
    for text in texts_of(slack.payload(absurd(name))):
        rest = OWN_LINKS.sub("", text)
        assert "<" not in rest
        assert ">" not in rest
        assert len(text.splitlines()) <= 2  # a field's name, its value


def test_slack_is_told_to_look_for_no_names_and_addresses_by_itself():
    def objects(part: Any) -> list[dict[str, Any]]:
        entries = part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
        own = [part] if isinstance(part, dict) and part.get("type") == "mrkdwn" else []
        return own + [found for entry in entries for found in objects(entry)]

    found = objects(slack.payload(absurd("@channel http://evil.example")))

    assert len(found) == 9
    assert all(entry["verbatim"] is True for entry in found)


def test_an_address_cannot_end_its_link():
    links = (Link("<Run|book>", "https://example.com/a b<c>d|e?f=1&g=2\n\ud800"),)

    message = slack.payload(notification(links=links))

    assert message["blocks"][3]["text"]["text"] == (
        "<https://example.com/a%20b%3Cc%3Ed%7Ce?f=1&amp;g=2%20%20|&lt;Run|book&gt;>"
    )


def test_links_that_do_not_fit_are_left_out_whole():
    long = Link("Long", "https://example.com/" + "a" * 4000)
    message = slack.payload(notification(links=(long, Link("Short", "https://example.com/"))))

    assert slack_refusal(message) is None
    assert message["blocks"][3]["text"]["text"] == "<https://example.com/|Short>"


def test_the_largest_message_is_below_the_limit():
    links = tuple(Link("&" * 400, "https://example.com/" + "&" * 40) for _ in range(20))
    message = slack.payload(absurd("&" * 10_000, firing=False, links=links, value="&" * 9000, condition="&" * 9000))

    assert slack_refusal(message) is None


@given(st.text(max_size=300), st.integers(1, 200))
def test_an_escaped_text_keeps_to_its_length_and_never_ends_within_an_escape(text: str, limit: int):
    escaped = slack.escaped(text, limit)

    assert len(escaped) <= limit
    assert re.fullmatch(r"(?:[^&<>]|&amp;|&lt;|&gt;)*", escaped)


def test_only_the_word_ok_is_a_success():
    assert slack.accepts(200, "ok")
    assert not slack.accepts(200, "<html>Please log in</html>")
    assert not slack.accepts(404, "no_service")


@with_any_name
def test_an_incident_of_many_servers_stays_within_the_limits_and_says_how_many_are_left_out(name: str):
    others = tuple(server_news(f"{name}{number}", firing=number % 2 == 0) for number in range(99))
    message = slack.payload(replace(absurd(name), others=others, left_out=901))

    assert slack_refusal(message) is None
    (also,) = [block["text"]["text"] for block in message["blocks"] if "*Also*" in str(block)]
    shown = also.count("\n") - 1
    assert also.endswith(f"and {1000 - shown} more")
    assert len(also) <= 3000


def test_the_last_hours_are_drawn_as_code_with_the_server_that_they_are_of():
    blocks = slack.payload(notification(target="gpu<3", course=COURSE))["blocks"]
    texts = [block["text"]["text"] for block in blocks if "text" in block]
    assert f"*Acceptance rate, 3 h by 5 min, on gpu&lt;3*\n`{FELL}`" in texts


def test_without_a_past_nothing_is_drawn():
    unknown = replace(COURSE, values=(None, None))
    assert slack.payload(notification(course=unknown)) == slack.payload(notification())
