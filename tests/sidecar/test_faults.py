"""What goes wrong with some targets costs no other a scrape and loses no alert, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from specwatch.alerting.receivers import webhook_receiver
from specwatch.collect.asking import PATIENT
from specwatch.collect.http import Cause
from specwatch.collect.scraper import Limits
from specwatch.collect.targets import parse
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import HOME, Failure
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.sink import Sink
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Clock, Service, ServiceSettings
from tests.support.http import Handler, serving, text_page
from tests.support.pages import page_text

PAGE = page_text("vllm-0.32.0-v1-draft_model-es")
BOMB = gzip.compress(b"#" * (64 * 2**20))
LIMITS = Limits(seconds=6.0, bytes=8 * 2**20)
INTERVAL = 0.2
PATIENCE = 90.0
"""Seconds until something that must happen is said not to: nothing is judged by how long it took."""

GOOD = ("good-1", "good-2", "good-3")


async def hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(86_400)
    raise AssertionError("nobody waits that long")


async def drip(request: web.Request) -> web.StreamResponse:
    """A byte a second."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"#")
        await asyncio.sleep(1)


async def reset(request: web.Request) -> web.StreamResponse:
    """Half a page, and the connection is gone without a goodbye."""
    response = web.StreamResponse(headers={"Content-Length": str(len(PAGE))})
    await response.prepare(request)
    await response.write(PAGE[: len(PAGE) // 2].encode())
    assert request.transport is not None
    request.transport.abort()
    return response


async def bomb(request: web.Request) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"# nothing yet\n" * 5000)


async def binary(request: web.Request) -> web.StreamResponse:
    return web.Response(body=bytes(range(256)) * 100, content_type="application/octet-stream")


async def picture(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"not": "metrics"', content_type="image/png")


async def too_many_series(request: web.Request) -> web.StreamResponse:
    return web.Response(text=SERIES)


SERIES = "".join(f'vllm:num_requests_running{{engine="0",n="{number}"}} 1\n' for number in range(100_001))


def changing_labels() -> Handler:
    """Every page is of other engines and another model."""
    pages = itertools.count()

    async def handler(request: web.Request) -> web.StreamResponse:
        number = next(pages)
        text = PAGE.replace('engine="0"', f'engine="{number}"').replace("lab_target", f"model-{number}")
        return web.Response(text=text)

    return handler


BAD: dict[str, tuple[Handler, Cause]] = {
    "hangs": (hang, Cause.TIMEOUT),
    "drips": (drip, Cause.TIMEOUT),
    "resets": (reset, Cause.CONNECTION),
    "bomb": (bomb, Cause.SIZE),
    "endless": (endless, Cause.SIZE),
    "binary": (binary, Cause.PAGE),
    "picture": (picture, Cause.PAGE),
    "series": (too_many_series, Cause.SERIES),
}
"""Targets that can not be read, and why."""


async def until(condition: Callable[[], object]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), PATIENCE)


@asynccontextmanager
async def running(service: Service) -> AsyncIterator[None]:
    task = asyncio.create_task(service.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def good_scrapes(service: Service) -> int:
    """Of the good target that was scraped least; none of them may fail."""
    assert all(service.tallies[name].failures == 0 for name in GOOD)
    return min(service.tallies[name].scrapes for name in GOOD)


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_whatever_a_target_does_the_others_are_scraped_and_it_is_said_what_it_does():
    routes = {f"/{name}/metrics": handler for name, (handler, _) in BAD.items()}
    routes["/changing/metrics"] = changing_labels()
    routes |= {f"/{name}/metrics": text_page(PAGE) for name in GOOD}
    async with serving(routes) as url:
        targets = [parse(f"{name}={url}/{name}/metrics") for name in (*GOOD, *BAD, "changing")]
        service = Service(targets, settings=ServiceSettings(interval=INTERVAL, limits=LIMITS))
        async with running(service):
            # Two rounds of those that take the longest, in which each good one has thirty turns a round.
            await until(lambda: min(service.tallies[name].failures for name in BAD) >= 2)
            slowest = max(service.tallies[name].scrapes for name in ("hangs", "drips"))
            assert good_scrapes(service) >= 2 * slowest
            await until(lambda: service.tallies["changing"].scrapes >= 5)
    assert {name: service.watches[name].up for name in BAD} == dict.fromkeys(BAD, False)
    assert set(service.causes) == {cause for _, cause in BAD.values()}
    assert service.tallies["changing"].failures == 0
    assert service.watches["changing"].view(service.clock.now()).engines == 1


@pytest.mark.slow
async def test_where_dns_is_gone_targets_with_addresses_are_scraped(monkeypatch):
    real, back = socket.getaddrinfo, threading.Event()

    def no_answer(host: str, *words: Any, **more: Any) -> Any:
        if host.endswith(".invalid"):
            back.wait(PATIENCE)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", no_answer)
    try:
        async with serving({"/metrics": text_page(PAGE)}) as url:
            named = [parse(f"gpu-{number}=http://gpu-{number}.invalid:8000") for number in range(100)]
            service = Service(
                [*(parse(f"{name}={url}") for name in GOOD), *named],
                settings=ServiceSettings(interval=INTERVAL, limits=LIMITS),
            )
            async with running(service):
                await until(lambda: min(service.tallies[target.name].failures for target in named) >= 2)
                assert good_scrapes(service) >= 2
                back.set()
    finally:
        back.set()
    assert all(service.watches[target.name].up is False for target in named)


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0], ids=["a day back", "a day ahead"])
async def test_a_clock_that_is_stepped_moves_no_window(monkeypatch, step: float):
    real = time.time
    async with serving({"/metrics": text_page(PAGE)}) as url:
        service = Service(
            [parse(f"{name}={url}") for name in GOOD], settings=ServiceSettings(interval=INTERVAL, limits=PATIENT)
        )
        async with running(service):
            await until(lambda: good_scrapes(service) >= 3)
            before, began = service.clock.now(), time.monotonic()
            monkeypatch.setattr(time, "time", lambda: real() + step)
            scraped = good_scrapes(service)
            await until(lambda: good_scrapes(service) >= scraped + 5)
            passed = time.monotonic() - began
            now = service.clock.now()
    assert now - before == pytest.approx(passed, abs=1.0)
    for name in GOOD:
        view = service.watches[name].view(now)
        assert view.last_scrape is not None
        assert before < view.last_scrape <= now
        assert view.restarts == 0
        assert 0 < (view.windows["6h"].seconds or 0) < 6 * PATIENCE


HALF = 15
"""Servers that go down, and as many that do not."""

SCALE = 0.02
"""Of every duration: two minutes until a server is told to be down are two and a half seconds."""


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_where_half_the_fleet_goes_down_each_is_told_of_and_none_of_the_others():
    cost = StepCost(weights_seconds=0.5)
    servers = [SimulatedServer(f"gpu-{n}", traffic=HOME, running=1, cost=cost, seed=n) for n in range(2 * HALF)]
    down = {server.name for server in servers[::2]}
    async with Sink() as sink, Fleet(servers) as fleet:
        clock = Clock()
        book = AlertBook([webhook_receiver(sink.webhook_url)], time_scale=SCALE, clock=clock)
        targets = [parse(f"{server.name}={url}") for server, url in zip(servers, fleet.urls, strict=True)]
        settings = ServiceSettings(interval=INTERVAL, limits=PATIENT)
        service = Service(targets, settings=settings, listener=book.judge, clock=clock, scale=SCALE)
        async with book.delivering(), running(service):
            await until(lambda: all(watch.up for watch in service.watches.values()))
            fail(servers[::2], Failure.DOWN)
            await until(lambda: told(sink, "firing") == down)
            scraped = {name: service.tallies[name].scrapes for name in service.watches}
            fail(servers[::2], Failure.NONE)
            await until(lambda: told(sink, "resolved") == down)
    assert told(sink, "firing") == down
    for name in service.watches.keys() - down:
        assert service.tallies[name].failures == 0
        assert scraped[name] >= 5
    assert book.view().deliveries[0].failed == book.view().deliveries[0].dropped == 0


def fail(servers: list[SimulatedServer], failure: Failure) -> None:
    for server in servers:
        server.failure = failure


def told(sink: Sink, status: str) -> set[str]:
    """Servers of which a message said that they are down, or are no longer."""
    alerts = [alert for message in sink.webhooks for alert in message.payload["alerts"]]
    return {
        alert["labels"]["instance"]
        for alert in alerts
        if alert["status"] == status and alert["labels"]["alertname"] == "SpeculationTargetDown"
    }
