"""Simulated servers over HTTP: many of them from one process, in real, accelerated or stepped time.

    async with Fleet(demo_fleet(), speed=10) as fleet:
        print(fleet.urls)             # one base URL a server, with /metrics, /health, /version, /v1/models below it
        fleet.enter("foreign")

Every server has a port of its own, or with ``one_port=True`` a path of its own: ``http://127.0.0.1:PORT/<name>``.
Nothing runs between requests: a server lives through the time that passed when somebody asks it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from aiohttp import web

from specwatch.errors import InputError
from specwatch.lab.scenario import Failure, Phase
from specwatch.lab.simulated_frontend import MODELS
from specwatch.lab.simulator import SimulatedServer

LOOPBACK = "127.0.0.1"

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of vLLM's page, whatever the scraper would rather have."""

SERVED_SECONDS = 0.001
"""Duration that the page shows for a request that costs no model: the captured page has 1.6 ms for /v1/models."""

CLOSING_SECONDS = 0.2
"""How long closing waits for answers under way: those that hang never come."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Fleet:
    """An async context manager that serves ``servers``.

    ``speed`` is simulated seconds per real second; 0 stops the clock, so that only ``advance`` moves it. Ports are
    free ones.
    """

    def __init__(self, servers: Sequence[SimulatedServer], *, speed: float = 1.0, one_port: bool = False) -> None:
        self.servers = tuple(servers)
        self._by_name = _by_name(self.servers)
        self._by_port: dict[int, SimulatedServer] = {}
        self._speed = speed
        self._one_port = one_port
        self._stepped = 0.0
        self._opened = 0.0
        self._births: dict[str, float] = {}
        self._runner: web.AppRunner | None = None
        self._port = 0

    async def __aenter__(self) -> Fleet:
        """Listen; time starts here."""
        self._opened = asyncio.get_running_loop().time()
        self._births = {server.name: server.now for server in self.servers}
        # a request whose client left is dropped, or servers that hang would collect them
        self._runner = web.AppRunner(
            self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=CLOSING_SECONDS
        )
        await self._runner.setup()
        if self._one_port:
            self._port = await self._listen()
        else:
            for server in self.servers:
                self._by_port[await self._listen()] = server
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection, those that hang included."""
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def urls(self) -> tuple[str, ...]:
        """Base URLs in the order of the servers."""
        if self._one_port:
            return tuple(f"http://{LOOPBACK}:{self._port}/{server.name}" for server in self.servers)
        return tuple(f"http://{LOOPBACK}:{port}" for port in self._by_port)

    @property
    def elapsed(self) -> float:
        """Simulated seconds since the fleet was opened."""
        real = asyncio.get_running_loop().time() - self._opened
        return self._stepped + real * self._speed

    def advance(self, seconds: float) -> None:
        """Let simulated seconds pass at once, on top of what the clock gives."""
        self._stepped += seconds
        self.catch_up()

    def catch_up(self) -> None:
        """Bring every server to the present: call it before setting something on a server yourself."""
        for server in self.servers:
            self._catch_up(server)

    def enter(self, phase: str) -> None:
        """Let every server enter the phase of its script that has this name."""
        self.catch_up()
        for server in self.servers:
            server.enter(phase)

    def apply(self, phase: Phase) -> None:
        """Let what ``phase`` says hold on every server from now on."""
        self.catch_up()
        for server in self.servers:
            server.apply(phase)

    def _catch_up(self, server: SimulatedServer) -> None:
        server.advance(max(0.0, self._births[server.name] + self.elapsed - server.now))

    async def _listen(self) -> int:
        if self._runner is None:
            raise RuntimeError("the fleet is not open")
        listener = socket.create_server((LOOPBACK, 0))
        await web.SockSite(self._runner, listener).start()
        port: int = listener.getsockname()[1]
        return port

    def _application(self) -> web.Application:
        application = web.Application()
        prefix = "/{server}" if self._one_port else ""
        for path, handler in (
            ("/metrics", self._metrics),
            ("/health", self._health),
            ("/version", self._version),
            ("/v1/models", self._models),
        ):
            application.router.add_get(prefix + path, self._to_server(handler))
        return application

    def _to_server(
        self, handler: Callable[[web.Request, SimulatedServer], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Find the server that a request is for, bring it to the present, and let it fail as it should."""

        async def handle(request: web.Request) -> web.StreamResponse:
            server = self._server(request)
            self._catch_up(server)
            if server.failure is Failure.HANG:
                await asyncio.sleep(86_400.0)
            if server.failure is Failure.DOWN:
                return _dropped(request)
            return await handler(request, server)

        return handle

    def _server(self, request: web.Request) -> SimulatedServer:
        if not self._one_port:
            if request.transport is None:
                raise web.HTTPNotFound
            port: int = request.transport.get_extra_info("sockname")[1]
            return self._by_port[port]
        server = self._by_name.get(request.match_info["server"])
        if server is None:
            raise web.HTTPNotFound(text=f"no server of that name; there are: {', '.join(self._by_name)}")
        return server

    async def _metrics(self, request: web.Request, server: SimulatedServer) -> web.StreamResponse:
        if server.failure is Failure.SERVER_ERROR:
            return web.Response(status=500, text="Internal Server Error")
        if server.failure is Failure.GARBAGE:
            return web.Response(text="<!doctype html><title>Sign in</title>", content_type="text/html")
        page = server.page().encode()
        if server.failure is Failure.CUT_OFF:
            return await _cut_off(request, page)
        if server.failure is Failure.TRUNCATED:
            page = page[: len(page) // 2]
        headers = {"Content-Type": TEXT_FORMAT}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            # level 6: a page shrinks to a tenth in about a millisecond
            page, headers["Content-Encoding"] = gzip.compress(page, 6), "gzip"
        return web.Response(body=page, headers=headers)

    async def _health(self, _request: web.Request, _server: SimulatedServer) -> web.StreamResponse:
        return web.Response()

    async def _version(self, _request: web.Request, server: SimulatedServer) -> web.StreamResponse:
        return web.json_response({"version": server.release})

    async def _models(self, _request: web.Request, server: SimulatedServer) -> web.StreamResponse:
        body = json.dumps(server.models())
        server.frontend.answered(MODELS, 0, len(body), SERVED_SECONDS)
        return web.Response(text=body, content_type="application/json")


def _by_name(servers: Sequence[SimulatedServer]) -> dict[str, SimulatedServer]:
    found: dict[str, SimulatedServer] = {}
    for server in servers:
        if not _NAME.fullmatch(server.name):
            raise InputError(f"simulated server {server.name!r}: a name holds letters, digits, '.', '_' and '-'")
        if server.name in found:
            raise InputError(f"two simulated servers are named {server.name!r}: give each a name of its own")
        found[server.name] = server
    return found


def _dropped(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def _cut_off(request: web.Request, page: bytes) -> web.StreamResponse:
    """Announce the whole page, send half of it and close."""
    response = web.StreamResponse(headers={"Content-Type": TEXT_FORMAT, "Content-Length": str(len(page))})
    await response.prepare(request)
    await response.write(page[: len(page) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
