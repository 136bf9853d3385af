"""Delivery over real sockets: to the sink, to servers that misbehave, and to nobody."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from specwatch.alerting.delivery import Delivery, Health, ReceiverStatus, Retries
from specwatch.alerting.notification import Notification
from specwatch.alerting.posting import LONGEST_RETRY_AFTER, _seconds
from specwatch.alerting.receivers import Receiver, one_post, pagerduty_receiver, slack_receiver
from specwatch.lab.sink import SLACK_PATH, Service, Sink
from tests.support.notifications import AT, notification

KEY = "0123456789abcdefVERYSECRET012345"
HOOK_SECRET = SLACK_PATH.rpartition("/")[2]


@pytest_asyncio.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as open_sink:
        yield open_sink


class Pauses:
    """Stands in for sleeping: remembers how long, and lets others run."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        """Sleep, but not really."""
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def slack_at(url: str, folder: Path) -> Receiver:
    path = folder / "slack"
    path.write_text(url)
    path.chmod(0o600)
    return slack_receiver(path)


def pagerduty_at(url: str, folder: Path) -> Receiver:
    path = folder / "pagerduty"
    path.write_text(KEY)
    path.chmod(0o600)
    return pagerduty_receiver(path, url)


def both(sink: Sink, folder: Path) -> list[Receiver]:
    return [slack_at(sink.slack_url, folder), pagerduty_at(sink.pagerduty_url, folder)]


async def deliver(receivers: list[Receiver], count: int = 1, **settings: Any) -> tuple[list[ReceiverStatus], Pauses]:
    """Send so many messages, wait until all is over, and return the counts and the pauses made."""
    pauses = Pauses()
    patient = {"timeout": 60, "drain_seconds": 60} | settings
    async with Delivery(receivers, sleep=pauses, jitter=lambda: 1.0, **patient) as delivery:
        for number in range(count):
            await send(delivery, notification(target=f"gpu-{number}"))
    return delivery.statuses(), pauses


async def send(delivery: Delivery, about: Notification) -> None:
    await delivery.send(delivery.address(about, AT))


@asynccontextmanager
async def server(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A server on this machine that answers every request so; its address."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}{SLACK_PATH}"
    finally:
        await runner.cleanup()


async def test_a_message_arrives_at_both(sink: Sink, tmp_path: Path):
    statuses, pauses = await deliver(both(sink, tmp_path))

    assert sink.slack[0].text.title == "🟠 Firing: Draft acceptance is low on gpu-0"
    assert sink.pagerduty[0].payload["routing_key"] == KEY
    assert sink.refused == []
    assert [(status.receiver, status.sent, status.waiting) for status in statuses] == [
        ("slack", 1, 0),
        ("pagerduty", 1, 0),
    ]
    assert all(status.last_success is not None and status.health is Health.WORKING for status in statuses)
    assert pauses.seconds == []


async def test_messages_arrive_in_order_in_spite_of_failures(sink: Sink, tmp_path: Path):
    sink.fail_next(3, 503, service=Service.SLACK)

    await deliver(both(sink, tmp_path), count=20)

    expected = [f"gpu-{number}" for number in range(20)]
    assert [event.payload["payload"]["source"] for event in sink.pagerduty] == expected
    assert [message.text.lines[0] for message in sink.slack] == [f"Server: {name}" for name in expected]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_temporary_failure_is_tried_again_after_pauses_that_double(sink: Sink, tmp_path: Path, status: int):
    sink.fail_next(3, status)

    statuses, pauses = await deliver([slack_at(sink.slack_url, tmp_path)])

    assert len(sink.slack) == 1
    assert pauses.seconds == [1.0, 2.0, 4.0]
    assert (statuses[0].sent, statuses[0].failed) == (1, 0)


async def test_retry_after_is_respected_when_it_is_longer_than_the_pause(sink: Sink, tmp_path: Path):
    sink.fail_next(1, 429, retry_after=90)
    sink.fail_next(1, 429, retry_after=1)

    _, pauses = await deliver([pagerduty_at(sink.pagerduty_url, tmp_path)])

    assert pauses.seconds == [90.0, 2.0]
    assert len(sink.pagerduty) == 1


async def test_retry_after_is_bounded(sink: Sink, tmp_path: Path):
    sink.fail_next(1, 503, retry_after="9" * 400)

    _, pauses = await deliver([slack_at(sink.slack_url, tmp_path)])

    assert pauses.seconds == [LONGEST_RETRY_AFTER]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0.0),
        ("", 0.0),
        ("30", 30.0),
        (" 30 ", 30.0),
        ("-5", 0.0),
        ("soon", 0.0),
        ("٣", 0.0),
        (formatdate(1_000_060.0, usegmt=True), 60.0),
        ("Tue, 13 Jan 1970 00:00:00 -0000", 36_800.0),
        (formatdate(999_000.0, usegmt=True), 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header: str | None, seconds: float):
    assert _seconds(header, now=1_000_000.0) == seconds


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 413])
async def test_a_refused_message_is_not_tried_again_and_does_not_stop_the_next(sink: Sink, tmp_path: Path, status: int):
    sink.fail_next(1, status)

    statuses, pauses = await deliver([pagerduty_at(sink.pagerduty_url, tmp_path)], count=2)

    assert pauses.seconds == []
    assert [event.payload["payload"]["source"] for event in sink.pagerduty] == ["gpu-1"]
    assert (statuses[0].sent, statuses[0].failed) == (1, 1)


class HourOfOutage(Pauses):
    """Pauses that pass an hour during which nothing is taken, and the sink's end of it."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink
        sink.outage = 503

    async def __call__(self, seconds: float) -> None:
        """Let the time pass."""
        await super().__call__(seconds)
        if sum(self.seconds) >= 3600:
            self._sink.outage = None


@pytest.mark.parametrize("service", [Service.SLACK, Service.PAGERDUTY])
async def test_after_an_hour_of_outage_everything_arrives_in_order_and_once(
    sink: Sink, tmp_path: Path, service: Service
):
    receiver = (slack_at if service is Service.SLACK else pagerduty_at)(getattr(sink, f"{service.value}_url"), tmp_path)
    pauses = HourOfOutage(sink)
    expected = []
    async with Delivery([receiver], sleep=pauses, jitter=lambda: 1.0, timeout=60, drain_seconds=60) as delivery:
        for number in range(200):
            for firing in (True, False):
                await send(delivery, notification(target=f"gpu-{number}", firing=firing))
                expected.append((f"gpu-{number}", firing))
    if service is Service.PAGERDUTY:
        events = [message.payload for message in sink.pagerduty]
        got = [(event["dedup_key"].rpartition("/")[2], event["event_action"] == "trigger") for event in events]
    else:
        titles = [message.text.title for message in sink.slack]
        got = [(title.rpartition(" ")[2], "Firing" in title) for title in titles]
    assert got == expected
    assert delivery.statuses()[0].dead_letters == ()
    # Of an hour, the last pause is not known to be vain: the message comes five minutes after its end at most.
    assert 3600 <= sum(pauses.seconds) < 3600 + 300


async def test_attempts_are_bounded(sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    sink.fail_next(100, 500)

    statuses, pauses = await deliver([slack_at(sink.slack_url, tmp_path)], retries=Retries(longest=2.0, give_up=5.0))

    assert len(sink.refused) == 4
    assert pauses.seconds == [1.0, 2.0, 2.0]
    assert (statuses[0].failed, statuses[0].health) == (1, Health.LOSING)
    assert "a message is lost: HTTP 500" in caplog.text


def test_pauses_are_spread_and_stay_below_the_longest():
    retries = Retries(first=1.0, longest=300.0)

    assert retries.pause(1, jitter=0.0) == 0.5
    assert retries.pause(4, jitter=0.5) == 6.0
    assert retries.pause(1000, jitter=1.0) == 300.0


async def test_a_receiver_that_is_away_does_not_hold_up_another(sink: Sink, tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port, and nobody answers
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}{SLACK_PATH}"
        receivers = [slack_at(nobody, tmp_path), pagerduty_at(sink.pagerduty_url, tmp_path)]
        async with Delivery(receivers, drain_seconds=0.1) as delivery:
            for number in range(3):
                await send(delivery, notification(target=f"gpu-{number}"))
            while len(sink.pagerduty) < 3:
                await asyncio.sleep(0.01)
            slack = delivery.statuses()[0]

    assert (slack.sent, slack.waiting, slack.health) == (0, 3, Health.RETRYING)


async def test_what_is_not_delivered_at_the_end_is_counted_and_said(
    sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    sink.fail_next(1000, 503)

    async with Delivery([slack_at(sink.slack_url, tmp_path)], drain_seconds=0.05) as delivery:
        await send(delivery, notification())
        await send(delivery, notification())

    assert (delivery.statuses()[0].dropped, delivery.statuses()[0].waiting) == (2, 0)
    assert "ended with 2 messages not delivered" in caplog.text


async def test_the_queue_is_bounded_and_the_one_being_sent_and_the_newest_stay(sink: Sink, tmp_path: Path):
    async with Delivery(
        [pagerduty_at(sink.pagerduty_url, tmp_path)], queue_size=3, timeout=60, drain_seconds=60
    ) as delivery:
        for number in range(10):  # without a pause, so that the worker gets none of them before
            await send(delivery, notification(target=f"gpu-{number}"))
        assert delivery.statuses()[0].waiting == 3

    assert [event.payload["payload"]["source"] for event in sink.pagerduty] == ["gpu-0", "gpu-8", "gpu-9"]
    assert (delivery.statuses()[0].sent, delivery.statuses()[0].dropped) == (3, 7)


async def test_what_is_sent_after_the_end_is_counted_as_dropped(sink: Sink, tmp_path: Path):
    async with Delivery([slack_at(sink.slack_url, tmp_path)]) as delivery:
        pass

    await send(delivery, notification())

    assert delivery.statuses()[0].dropped == 1
    assert sink.slack == []


async def test_a_redirect_is_not_followed(tmp_path: Path):
    paths: list[str] = []

    async def redirect(request: web.Request) -> web.StreamResponse:
        paths.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    async with server(redirect) as url:
        statuses, pauses = await deliver([slack_at(url, tmp_path)])

    assert paths == [SLACK_PATH]
    assert pauses.seconds == []
    assert statuses[0].failed == 1


async def test_a_server_that_does_not_answer_costs_the_timeout_and_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    requests: list[str] = []
    ended = asyncio.Event()

    async def hang_once(request: web.Request) -> web.StreamResponse:
        requests.append(request.path)
        if len(requests) == 1:
            await ended.wait()
        return web.Response(text="ok")

    async with server(hang_once) as url:
        statuses, _ = await deliver([slack_at(url, tmp_path)], timeout=1.0)
        ended.set()

    assert len(requests) >= 2
    assert statuses[0].sent == 1
    assert "no answer within 1 s" in caplog.text


async def test_a_server_without_tls_behind_an_https_address_is_said_to_be_so(
    sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    url = sink.slack_url.replace("http:", "https:")

    statuses, _ = await deliver([slack_at(url, tmp_path)], retries=Retries(give_up=1.0))

    assert statuses[0].failed == 1
    assert "no connection: it does not speak TLS as we do" in caplog.text


async def test_an_endless_answer_is_not_read_to_its_end(tmp_path: Path):
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=400)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 1000)
            await asyncio.sleep(0.01)

    async with server(drip) as url:
        statuses, _ = await deliver([slack_at(url, tmp_path)])

    assert statuses[0].failed == 1


async def test_a_page_of_some_proxy_is_no_success(tmp_path: Path):
    answers = iter(["<html>Please log in</html>", "ok"])

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=next(answers))

    async with server(answer) as url:
        statuses, pauses = await deliver([slack_at(url, tmp_path)])

    assert (statuses[0].sent, len(pauses.seconds)) == (1, 1)


async def test_a_failure_is_logged_once_when_it_begins_and_once_when_it_ends(
    sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="specwatch")
    sink.fail_next(8, 503)

    await deliver([slack_at(sink.slack_url, tmp_path)], count=5)

    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "slack: not taken yet, trying again: HTTP 503 told to fail"),
        (logging.INFO, "slack: takes messages again"),
    ]


async def test_many_lost_messages_are_logged_once(sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    sink.fail_next(50, 404)

    statuses, _ = await deliver([slack_at(sink.slack_url, tmp_path)], count=50)

    assert statuses[0].failed == 50
    assert [record.getMessage() for record in caplog.records] == ["slack: a message is lost: HTTP 404 told to fail"]


async def test_a_defect_in_one_message_does_not_stop_the_others(
    sink: Sink, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def payload(message: Any) -> dict[str, Any]:
        if message.first.target == "gpu-0":
            raise ZeroDivisionError(KEY)
        return {"text": message.first.target}

    receiver = one_post("slack", sink.slack_url, payload, lambda status, body: status == 200)

    statuses, _ = await deliver([receiver], count=2)

    assert [message.payload["text"] for message in sink.slack] == ["gpu-1"]
    assert (statuses[0].sent, statuses[0].failed) == (1, 1)
    assert "ZeroDivisionError" in caplog.text
    assert KEY not in caplog.text


async def test_no_failure_brings_a_secret_into_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)

    async def repeat(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/reset"):
            assert request.transport is not None
            request.transport.abort()
        text = f"no {request.url} {(await request.read()).decode()}"
        return web.Response(status=int(request.query.get("status", "400")), text=text)

    async with server(repeat) as url:
        once = Retries(give_up=1.0)
        for query in ("?status=400", "?status=500", "?status=200"):
            await deliver([slack_at(url + query, tmp_path), pagerduty_at(url + query, tmp_path)], retries=once)
        await deliver([slack_at(url.replace(SLACK_PATH, "/reset" + SLACK_PATH), tmp_path)], retries=once)
    await deliver([slack_at(url, tmp_path), pagerduty_at(url, tmp_path)], retries=once)

    ours = [record.getMessage() for record in caplog.records if record.name.startswith("specwatch")]
    assert len(ours) >= 9
    assert "no connection: Connection refused" in caplog.text
    assert HOOK_SECRET not in caplog.text
    assert KEY not in caplog.text


async def test_without_receivers_nothing_happens():
    async with Delivery([]) as delivery:
        await send(delivery, notification())

    assert delivery.statuses() == []
