"""Connections that fall idle are closed before the server does it."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from specwatch.measure import connector as made
from tests.support.http import serving


async def test_a_connection_serves_the_next_request_unless_it_was_idle_for_long(monkeypatch):
    ports: list[int] = []

    async def note(request: web.Request) -> web.Response:
        ports.append(request.transport.get_extra_info("peername")[1])
        return web.Response()

    async def ask_twice(idle: float, pause: float) -> bool:
        monkeypatch.setattr(made, "IDLE_SECONDS", idle)
        async with aiohttp.ClientSession(connector=made.connector()) as session:
            for seconds in (0, pause):
                await asyncio.sleep(seconds)
                async with session.post(f"{url}/", data=b"x") as answer:
                    await answer.read()
        return ports[-2] == ports[-1]

    async with serving({}, {"/": note}) as url:
        assert await ask_twice(idle=60.0, pause=0.2)
        assert not await ask_twice(idle=0.1, pause=0.2)
    assert made.IDLE_SECONDS < 5
