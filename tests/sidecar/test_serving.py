from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
import uvicorn

from specwatch.sidecar import serving
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from specwatch.sidecar.serving import Server

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def served(monkeypatch, ticks: int) -> AsyncIterator[tuple[Server, int]]:
    """A server and its port; it looks for silent connections after so many ticks, and is patient for half a second."""
    monkeypatch.setattr(serving, "HEAD_TICKS", ticks)
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.5)
    app = create_app(Service([]), AlertBook())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(uvicorn.Config(app, http="h11", log_config=None), app.state.events)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield server, listener.getsockname()[1]
        server.should_exit = True
        await task


@pytest_asyncio.fixture
async def port(monkeypatch) -> AsyncIterator[int]:
    """Of a server that looks at every tick."""
    async with served(monkeypatch, 1) as (_, port):
        yield port


async def connected(port: int) -> Connection:
    return await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("begun", [b"", b"GET", HEAD])
async def test_a_connection_that_never_asks_is_closed(port, begun):
    reader, writer = await connected(port)
    writer.write(begun)
    assert await reader.read() == b""
    writer.close()


async def test_a_second_request_that_never_ends_is_given_up_as_well(port):
    reader, writer = await connected(port)
    writer.write(HEAD + b"\r\n")
    assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200")
    writer.write(HEAD)
    assert await reader.read() == b""
    writer.close()


async def test_a_connection_that_asked_in_between_or_listens_stays(monkeypatch):
    async with served(monkeypatch, 10**9) as (server, port):
        (reader, writer), (events, listener) = await connected(port), await connected(port)
        listener.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await events.readuntil(b"event: scraped")
        for now in (0.0, 100.0, 200.0):
            writer.write(HEAD + b"\r\n")
            await reader.readuntil(b"ok\n")
            server._close_silent(now)
            assert [connection.transport.is_closing() for connection in server.server_state.connections] == [False] * 2
        server._close_silent(201.0)
        assert await reader.read() == b""
        assert not events.at_eof()
        for each in (writer, listener):
            each.close()
