"""Questions over aiohttp, for whoever asks little: imported when somebody does, for it takes nine megabytes."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from specwatch import __version__
from specwatch.collect.asking import Answer, Limits, refused
from specwatch.collect.connections import IDLE_SECONDS, RESOLVERS, Ended, NotConnected
from specwatch.collect.credentials import Terms
from specwatch.collect.raw_answer import NoAnswer, NotHttp
from specwatch.collect.unpacking import Unpacking

CHUNK = 2**16
"""Bytes that are taken at a time."""


class _Names(AbstractResolver):
    """The system's resolver in threads of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="names")

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[Any]:
        ask = functools.partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        places = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            {"hostname": host, "host": address[0], "port": port, "family": kind, "proto": proto, "flags": numeric}
            for kind, _, proto, _, address in places
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def opened(headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that keeps connections open between questions, and asks as many servers at once as there are."""
    names = _Names()
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS, resolver=names)
    session = aiohttp.ClientSession(
        headers={"User-Agent": f"specwatch/{__version__}", **(headers or {})},
        cookie_jar=aiohttp.DummyCookieJar(),
        connector=connector,
    )
    try:
        async with session:
            yield session
    finally:
        await names.close()


@contextmanager
def _as_over_connections() -> Iterator[None]:
    """Problems are those that ``Connections.get`` has."""
    try:
        yield
    except aiohttp.ClientConnectorError as problem:
        raise NotConnected from (getattr(problem, "os_error", None) or problem)
    except aiohttp.ClientPayloadError:
        raise Ended(begun=True) from None
    except aiohttp.ServerDisconnectedError:
        raise Ended(begun=False) from None
    except aiohttp.ClientResponseError:
        raise NotHttp from None
    except aiohttp.ClientError as problem:
        raise NoAnswer from problem


async def get(
    session: aiohttp.ClientSession,
    url: str,
    headers: Mapping[str, str],
    limits: Limits,
    terms: Terms,
    wanted: Sequence[int],
) -> Answer:
    """The answer; raises what ``Connections.get`` does."""
    with _as_over_connections():
        async with session.get(
            url,
            timeout=aiohttp.ClientTimeout(total=limits.seconds),
            allow_redirects=False,
            auto_decompress=False,
            headers=headers,
            ssl=terms.tls,
            server_hostname=terms.server_name,
        ) as response:
            if response.status not in wanted:
                raise refused(url, response.status)
            unpacking = Unpacking(response.headers.get("Content-Encoding", "identity"), limits.bytes)
            async for chunk in response.content.iter_chunked(CHUNK):
                unpacking.feed(chunk)
            return Answer(unpacking.result(), response.content_type, response.status)
