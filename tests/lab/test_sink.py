"""The stand-in for Slack and PagerDuty, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from specwatch.lab.sink import LARGEST_REQUEST, Received, Service, Sink
from specwatch.lab.sink_limits import PAGERDUTY_EVENT, SLACK_MESSAGE, pagerduty_errors, slack_refusal
from specwatch.lab.sink_text import LINE_LENGTH, MOST_LINES, pagerduty_text, slack_text

EVENT: dict[str, Any] = {
    "routing_key": "0123456789abcdef0123456789abcdef",
    "event_action": "trigger",
    "dedup_key": "low/gpu-3",
    "payload": {"summary": "Low on gpu-3", "source": "gpu-3", "severity": "warning"},
}

FROM_ALERTMANAGER: dict[str, Any] = {
    "channel": "#alerts",
    "username": "Alertmanager",
    "attachments": [
        {
            "title": "[FIRING:1] Low &amp; slow",
            "title_link": "http://127.0.0.1:9093/#/alerts",
            "text": "*gpu-3* accepts 50%.\nLower K.",
            "fallback": "[FIRING:1] Low | http://127.0.0.1:9093",
            "callback_id": "",
            "footer": "",
            "color": "danger",
            "fields": [{"title": "Server", "value": "gpu-3", "short": True}],
            "actions": [{"type": "button", "text": "Runbook", "url": "https://example.com/low", "name": ""}],
            "mrkdwn_in": ["fallback", "pretext", "text"],
        }
    ],
}
"""As Alertmanager posts to a webhook."""


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def markup(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text}


def header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": plain(text)}


def section(**parts: Any) -> dict[str, Any]:
    return {"type": "section", **parts}


@pytest_asyncio.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as open_sink:
        yield open_sink


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def post(http: aiohttp.ClientSession, url: str, content: Any) -> tuple[int, str, dict[str, str]]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    async with http.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
        return response.status, await response.text(), dict(response.headers)


async def test_it_keeps_slack_messages_in_the_order_of_their_arrival(sink: Sink, http: aiohttp.ClientSession):
    for number in range(3):
        assert (await post(http, sink.slack_url, {"text": f"message {number}"}))[:2] == (200, "ok")

    assert [message.payload["text"] for message in sink.slack] == ["message 0", "message 1", "message 2"]
    assert sink.slack[0].at <= sink.slack[2].at
    assert sink.pagerduty == sink.refused == []


async def test_it_answers_an_event_as_pagerduty_does(sink: Sink, http: aiohttp.ClientSession):
    status, body, _ = await post(http, sink.pagerduty_url, EVENT)

    assert status == 202
    assert json.loads(body) == {"status": "success", "message": "Event processed", "dedup_key": "low/gpu-3"}
    assert sink.pagerduty[0].payload == EVENT


async def test_an_event_without_a_key_is_given_one(sink: Sink, http: aiohttp.ClientSession):
    event = {key: value for key, value in EVENT.items() if key != "dedup_key"}

    _, body, _ = await post(http, sink.pagerduty_url, event)

    assert len(json.loads(body)["dedup_key"]) == 32


async def test_it_refuses_an_event_with_pagerdutys_words(sink: Sink, http: aiohttp.ClientSession):
    status, body, _ = await post(http, sink.pagerduty_url, {**EVENT, "routing_key": "short"})

    assert status == 400
    assert json.loads(body) == {
        "status": "invalid event",
        "message": "Event object is invalid",
        "errors": ["Length of 'routing_key' is incorrect (should be 32 characters)"],
    }
    assert sink.pagerduty == []
    assert [(entry.service, entry.status) for entry in sink.refused] == [(Service.PAGERDUTY, 400)]


async def test_it_refuses_a_message_with_slacks_words(sink: Sink, http: aiohttp.ClientSession):
    assert (await post(http, sink.slack_url, {"blocks": [header("x" * 151)]}))[:2] == (400, "invalid_blocks")
    assert [(entry.service, entry.reason) for entry in sink.refused] == [(Service.SLACK, "invalid_blocks")]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000], ids=["empty", "half", "binary", "deep"])
async def test_what_is_not_json_is_refused(sink: Sink, http: aiohttp.ClientSession, body: bytes):
    assert (await post(http, sink.slack_url, body))[:2] == (400, "invalid_payload")
    assert (await post(http, sink.pagerduty_url, body))[0] == 400


async def test_an_event_of_more_than_512_kb_is_refused(sink: Sink, http: aiohttp.ClientSession):
    event = {**EVENT, "client": "x" * PAGERDUTY_EVENT}

    assert (await post(http, sink.pagerduty_url, event))[0] == 400
    assert (await post(http, sink.pagerduty_url, b"x" * (LARGEST_REQUEST + 1)))[0] == 413


@pytest.mark.parametrize("path", ["/", "/services/only/two", "/v2/change/enqueue", "/services/a/b/c/d"])
async def test_another_address_is_no_service(sink: Sink, http: aiohttp.ClientSession, path: str):
    assert (await post(http, sink.url + path, {"text": "x"}))[:2] == (404, "no_service")


async def test_it_fails_as_often_as_it_is_told_to_and_then_works(sink: Sink, http: aiohttp.ClientSession):
    sink.fail_next(2, 429, retry_after=30)

    first = await post(http, sink.slack_url, {"text": "x"})
    second = await post(http, sink.pagerduty_url, EVENT)
    third = await post(http, sink.slack_url, {"text": "x"})

    assert (first[0], first[2]["Retry-After"]) == (429, "30")
    assert (second[0], second[2]["Retry-After"]) == (429, "30")
    assert third[0] == 200
    assert [entry.status for entry in sink.refused] == [429, 429]


async def test_it_can_fail_for_one_service_only(sink: Sink, http: aiohttp.ClientSession):
    sink.fail_next(1, 503, service=Service.PAGERDUTY)

    assert (await post(http, sink.slack_url, {"text": "x"}))[0] == 200
    assert (await post(http, sink.pagerduty_url, EVENT))[0] == 503


async def test_its_memory_is_bounded(http: aiohttp.ClientSession):
    async with Sink(keep=2) as small:
        for number in range(5):
            await post(http, small.slack_url, {"text": str(number)})
            await post(http, small.slack_url, {})

    assert [message.payload["text"] for message in small.slack] == ["3", "4"]
    assert len(small.refused) == 2


async def test_it_tells_of_every_message_it_takes(http: aiohttp.ClientSession):
    told: list[Received] = []
    async with Sink(on_received=told.append) as sink:
        await post(http, sink.slack_url, {"text": "x"})
        await post(http, sink.slack_url, {})
        await post(http, sink.pagerduty_url, EVENT)

    assert [received.service for received in told] == [Service.SLACK, Service.PAGERDUTY]
    assert told[1].text.title == "trigger, warning: Low on gpu-3"


async def test_two_sinks_get_two_ports_of_this_machine():
    async with Sink() as one, Sink() as two:
        assert one.url != two.url
        assert one.url.startswith("http://127.0.0.1:")


GOOD_MESSAGES = {
    "text": {"text": "x"},
    "long text": {"text": "x" * SLACK_MESSAGE},
    "blocks alone": {"blocks": [header("x" * 150), section(text=markup("x" * 3000)), {"type": "divider"}]},
    "fields": {"blocks": [section(fields=[markup("x" * 1000)] * 10)]},
    "context": {"blocks": [{"type": "context", "elements": [markup("x")] * 10}]},
    "button": {"blocks": [{"type": "actions", "elements": [{"type": "button", "text": plain("x" * 75)}]}]},
    "50 blocks": {"blocks": [{"type": "divider"}] * 50},
    "Alertmanager": FROM_ALERTMANAGER,
}


@pytest.mark.parametrize("message", list(GOOD_MESSAGES.values()), ids=list(GOOD_MESSAGES))
def test_slack_takes(message: dict[str, Any]):
    assert slack_refusal(message) is None


BAD_MESSAGES = {
    "a list": ([], "invalid_payload"),
    "nothing": ({}, "no_text"),
    "empty text": ({"text": ""}, "no_text"),
    "empty attachment": ({"attachments": [{"color": "danger"}]}, "no_text"),
    "attachments of text": ({"text": "x", "attachments": ["x"]}, "invalid_payload"),
    "blocks of text": ({"blocks": ["x"]}, "invalid_blocks"),
    "51 blocks": ({"blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
    "unknown block": ({"blocks": [{"type": ["header"]}]}, "invalid_blocks"),
    "long header": ({"blocks": [header("x" * 151)]}, "invalid_blocks"),
    "empty header": ({"blocks": [header("")]}, "invalid_blocks"),
    "header with markup": ({"blocks": [{"type": "header", "text": markup("x")}]}, "invalid_blocks"),
    "long section": ({"blocks": [section(text=markup("x" * 3001))]}, "invalid_blocks"),
    "empty section": ({"blocks": [section()]}, "invalid_blocks"),
    "11 fields": ({"blocks": [section(fields=[markup("x")] * 11)]}, "invalid_blocks"),
    "no fields": ({"blocks": [section(fields=[])]}, "invalid_blocks"),
    "long field": ({"blocks": [section(fields=[markup("x" * 2001)])]}, "invalid_blocks"),
    "11 elements": ({"blocks": [{"type": "context", "elements": [markup("x")] * 11}]}, "invalid_blocks"),
    "long button": (
        {"blocks": [{"type": "actions", "elements": [{"type": "button", "text": plain("x" * 76)}]}]},
        "invalid_blocks",
    ),
    "foreign key": ({"blocks": [section(text={**plain("x"), "verbatim": True})]}, "invalid_blocks"),
    "one name twice": ({"blocks": [{"type": "divider", "block_id": "x"}] * 2}, "invalid_blocks"),
    "101 attachments": ({"attachments": [{"text": "x"}] * 101}, "too_many_attachments"),
    "too long in all": ({"blocks": [section(text=markup("x" * 2700))] * 5}, "msg_blocks_too_long"),
    "long attachment": ({"attachments": [{"text": "x" * 13_001}]}, "msg_blocks_too_long"),
}


@pytest.mark.parametrize(("message", "refusal"), list(BAD_MESSAGES.values()), ids=list(BAD_MESSAGES))
def test_slack_refuses(message: Any, refusal: str):
    assert slack_refusal(message) == refusal


def changed(**changes: Any) -> dict[str, Any]:
    return {**EVENT, **changes}


def changed_payload(**changes: Any) -> dict[str, Any]:
    return {**EVENT, "payload": {**EVENT["payload"], **changes}}


GOOD_EVENTS = {
    "trigger": EVENT,
    "longest summary": changed_payload(summary="x" * 1024),
    "longest key": changed(dedup_key="x" * 255),
    "details": changed_payload(custom_details={"firing": {"nested": 1}}),
    "time": changed_payload(timestamp="2026-02-03T04:05:06.789Z"),
    "links": changed(links=[{"href": "https://example.com/", "text": "x"}]),
    "resolve": {key: EVENT[key] for key in ("routing_key", "dedup_key")} | {"event_action": "resolve"},
}


@pytest.mark.parametrize("event", list(GOOD_EVENTS.values()), ids=list(GOOD_EVENTS))
def test_pagerduty_takes(event: dict[str, Any]):
    assert pagerduty_errors(event, 1000) == []


BAD_EVENTS = {
    "a list": ([], "not an object"),
    "no routing key": (changed(routing_key=None), "routing_key"),
    "long routing key": (changed(routing_key="x" * 33), "routing_key"),
    "unknown action": (changed(event_action="fire"), "event_action"),
    "long key": (changed(dedup_key="x" * 256), "dedup_key"),
    "resolve without a key": (changed(event_action="resolve", dedup_key=""), "dedup_key"),
    "no payload": (changed(payload=None), "payload"),
    "no summary": (changed_payload(summary=""), "summary"),
    "long summary": (changed_payload(summary="x" * 1025), "summary"),
    "no source": (changed_payload(source=None), "source"),
    "unknown severity": (changed_payload(severity="fatal"), "severity"),
    "details of text": (changed_payload(custom_details="x"), "custom_details"),
    "no time": (changed_payload(timestamp="yesterday"), "timestamp"),
    "link without address": (changed(links=[{"text": "x"}]), "links"),
    "image without address": (changed(images=[{}]), "images"),
}


@pytest.mark.parametrize(("event", "named"), list(BAD_EVENTS.values()), ids=list(BAD_EVENTS))
def test_pagerduty_refuses(event: Any, named: str):
    (error,) = pagerduty_errors(event, 1000)

    assert named in error


def test_a_message_of_alertmanager_reads_as_text():
    read = slack_text(FROM_ALERTMANAGER)

    assert read.title == "[FIRING:1] Low & slow"
    assert read.lines == (
        "*gpu-3* accepts 50%.",
        "Lower K.",
        "Server: gpu-3",
        "Runbook: https://example.com/low",
        "link: http://127.0.0.1:9093/#/alerts",
    )


def test_a_message_of_text_alone_has_it_as_title():
    assert slack_text({"text": "see <https://example.com/|this> &amp; <https://example.org/>"}).title == (
        "see this: https://example.com/ & https://example.org/"
    )


def test_an_escaped_escape_is_undone_once():
    assert slack_text({"text": "&amp;lt;"}).title == "&lt;"


def test_an_event_reads_as_text():
    event = changed_payload(custom_details={"what to do": "Lower K.", "firing": {"alerts": 1}})

    read = pagerduty_text({**event, "links": [{"href": "https://example.com/"}]})

    assert read.title == "trigger, warning: Low on gpu-3"
    assert read.lines == (
        "source: gpu-3",
        "what to do: Lower K.",
        'firing: {"alerts": 1}',
        "link: https://example.com/",
    )


def test_a_resolve_reads_as_its_summary_or_else_its_key():
    resolve = {**EVENT, "event_action": "resolve"}

    assert pagerduty_text(resolve).title == "resolve: Low on gpu-3"
    assert pagerduty_text({**resolve, "payload": None}).title == "resolve: low/gpu-3"


def test_text_for_the_terminal_is_bounded_and_holds_no_commands():
    hostile = "\x1b[2J" + "x\n" * 1000 + "y" * 1000
    read = slack_text({"text": hostile, "blocks": [section(text=markup(hostile))]})

    assert len(read.lines) == MOST_LINES
    assert all(line.isprintable() and len(line) <= LINE_LENGTH for line in (read.title, *read.lines))


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "fields", "elements", "block_id", "title", "href"]), inner)
    ),
    max_leaves=8,
)
KEYS = ["text", "blocks", "attachments", "payload", "custom_details", "links", "event_action", "routing_key"]
Messages = st.dictionaries(st.sampled_from(KEYS), Json)


@given(Messages)
def test_no_message_whatever_its_shape_breaks_the_sink(message: dict[str, Any]):
    assert slack_refusal(message) is None or isinstance(slack_refusal(message), str)
    assert isinstance(pagerduty_errors(message, 10), list)
    if slack_refusal(message) is None:
        assert not any(ord(character) < 32 for character in slack_text(message).title)
