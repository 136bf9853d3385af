from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.routes import events
from tools.rehearsal import offstage, serving


async def next_event(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """The next event's name and data; comments are passed over."""
    told: dict[str, Any] = {}
    async for line in answer.content:
        name, _, text = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            told["event"] = text
        elif name == "data":
            told["data"] = json.loads(text)
        elif not name and told:
            return told
    raise EOFError("the stream ended")


async def test_a_listener_hears_at_once_and_then_of_every_scrape():
    async with (
        offstage([SimulatedServer("gpu-0")]) as stage,
        serving(stage.app) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/v1/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert await next_event(answer) == {"event": "scraped", "data": {"at": stage.clock.now()}}
        await stage.play(30, step=5)
        assert (await next_event(answer))["event"] == "scraped"


async def test_many_scrapes_at_once_are_one_event():
    events_of, scrapes = [], 0
    stream = events.Events(lambda: scrapes, lambda: 0.0)

    async def listen() -> None:
        async for told in stream.stream():
            events_of.append(told)

    listening = asyncio.create_task(listen())
    while not events_of:
        await asyncio.sleep(0)
    scrapes = 1000
    while len(events_of) < 2:
        await asyncio.sleep(0.05)
    stream.close()
    await listening
    assert len(events_of) == 2


async def test_a_stop_ends_the_streams_instead_of_waiting_for_them():
    async with offstage([SimulatedServer("gpu-0")]) as stage, aiohttp.ClientSession() as session:
        async with serving(stage.app) as url:
            answer = await session.get(f"{url}/api/v1/events")
            await next_event(answer)
        with pytest.raises(EOFError):  # ended in order: a stream that was cut off raises ClientPayloadError
            await next_event(answer)
        assert stage.app.state.events.listeners == 0


async def test_a_listener_too_many_is_sent_away_and_one_that_leaves_makes_room(monkeypatch):
    monkeypatch.setattr(events, "MOST_LISTENERS", 1)
    async with (
        offstage([SimulatedServer("gpu-0")]) as stage,
        serving(stage.app) as url,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{url}/api/v1/events") as first:
            await next_event(first)
            async with session.get(f"{url}/api/v1/events") as second:
                assert (second.status, second.headers["retry-after"]) == (503, "30")
        while stage.app.state.events.listeners:
            await stage.play(5, step=5)
            await asyncio.sleep(0.1)
        async with session.get(f"{url}/api/v1/events") as third:
            assert third.status == 200
