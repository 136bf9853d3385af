"""Small HTTP servers on loopback for tests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    routes: dict[str, Handler],
    posts: dict[str, Handler] | None = None,
    largest_body: int = 2**20,
    encryption: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """An aiohttp server with these GET and POST routes on a free port; gives its URL."""
    app = web.Application(client_max_size=largest_body)
    app.add_routes([web.get(path, handler) for path, handler in routes.items()])
    app.add_routes([web.post(path, handler) for path, handler in (posts or {}).items()])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=encryption)
    await site.start()
    try:
        yield f"{'https' if encryption else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(raw: bytes, close: bool = True) -> AsyncIterator[str]:
    """A socket that answers anything with these bytes, then closes or falls silent; gives its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2**16)
        writer.write(raw)
        await writer.drain()
        if not close:
            await asyncio.sleep(30)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def text_page(text: str) -> Handler:
    """A handler that serves a metrics page."""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=text)

    return handler
