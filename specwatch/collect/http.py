"""Asking servers over HTTP, within limits of time and size. Nobody's redirect is followed."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from specwatch import __version__
from specwatch.collect.credentials import Credentials
from specwatch.errors import InputError

CHUNK = 2**16
"""Bytes that are taken at a time."""

IDLE_SECONDS = 120.0
"""How long a connection is kept for the next question. A server that closes it sooner is asked anew."""

RESOLVERS = 32
"""Names that are looked up at a time. They have threads of their own: where DNS is gone, each waits for seconds, and
nothing else may wait behind them."""


class Cause(str, Enum):
    """Why nothing came of a question."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    STATUS = "status"
    SIZE = "size"
    SERIES = "series"
    PAGE = "page"
    CREDENTIALS = "credentials"
    DEFECT = "defect"


class ScrapeError(Exception):
    """A page that could not be had or read; the text says why in words for a person."""

    def __init__(self, text: str, cause: Cause = Cause.CONNECTION) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True)
class Limits:
    """What a target may cost."""

    seconds: float = 5.0
    """From connecting to the last byte."""
    bytes: int = 16 * 2**20
    """Of the decompressed page. A page of vLLM is about 54 kB an engine."""


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    body: bytes
    media_type: str
    status: int = 200


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
async def http_session(headers: Mapping[str, str] | None = None) -> AsyncIterator[aiohttp.ClientSession]:
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


async def fetch(
    session: aiohttp.ClientSession,
    url: str,
    limits: Limits,
    credentials: Credentials | None = None,
    headers: Mapping[str, str] | None = None,
    also: Container[int] = (),
) -> Answer:
    """The whole answer, where its status is 200 or one of ``also``; ScrapeError for anything else."""
    timeout = aiohttp.ClientTimeout(total=limits.seconds)
    try:
        terms = credentials.terms() if credentials else None
        async with session.get(
            url,
            timeout=timeout,
            allow_redirects=False,
            auto_decompress=False,
            headers={"Accept-Encoding": "gzip", **(headers or {}), **(terms.headers if terms else {})},
            ssl=terms.tls if terms else True,
            server_hostname=terms.server_name if terms else None,
        ) as response:
            if response.status != 200 and response.status not in also:
                raise ScrapeError(f"the server answers {url} with HTTP {response.status}", Cause.STATUS)
            return Answer(await _read(response, limits.bytes), response.content_type, response.status)
    except InputError as problem:
        raise ScrapeError(str(problem), Cause.CREDENTIALS) from None
    except asyncio.TimeoutError:
        raise ScrapeError(f"no complete answer within {limits.seconds:g} s", Cause.TIMEOUT) from None
    except aiohttp.ClientConnectorError as problem:
        raise ScrapeError(f"no connection: {connection_failure(problem)}") from None
    except aiohttp.ClientPayloadError:
        raise ScrapeError("the connection ended in the middle of the page") from None
    except aiohttp.ServerDisconnectedError:
        raise ScrapeError("the server closed the connection without an answer") from None
    except aiohttp.ClientResponseError:
        raise ScrapeError("the answer is not HTTP as we speak it") from None
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise ScrapeError(f"the request failed: {type(problem).__name__}") from None


def connection_failure(problem: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in a few words; certificate errors carry no system error."""
    cause = getattr(problem, "os_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate does not hold: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) or cause is None:
        return f"the TLS handshake failed ({getattr(cause, 'reason', None) or type(problem).__name__})"
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    return os.strerror(cause.errno).lower() if cause.errno else str(cause)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The body, unpacked here: no more of it than is wanted, whatever a small packet claims to hold."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise ScrapeError("the page is packed in another way than was asked for", Cause.PAGE)
    unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding == "gzip" else None
    body = bytearray()
    try:
        async for chunk in response.content.iter_chunked(CHUNK):
            body += unpacking.decompress(chunk, most + 1 - len(body)) if unpacking else chunk
            if len(body) > most:
                raise ScrapeError(f"the page is larger than {most / 2**20:g} MiB", Cause.SIZE)
    except zlib.error:
        raise ScrapeError("the page is said to be gzip, and is not", Cause.PAGE) from None
    if unpacking and not unpacking.eof:
        raise ScrapeError("the page ends in the middle: it was cut off on the way", Cause.PAGE)
    return bytes(body)
