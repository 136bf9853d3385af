"""Asking servers over HTTP, within limits of time and size. Nobody's redirect is followed."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from specwatch import __version__
from specwatch.collect.asking import Answer, Cause, Limits, ScrapeError
from specwatch.collect.connections import IDLE_SECONDS, RESOLVERS, Connections, Ended, NotConnected
from specwatch.collect.credentials import Credentials, Terms
from specwatch.collect.raw_answer import NoAnswer, NotHttp, TooLarge
from specwatch.errors import InputError

__all__ = ["Answer", "Asker", "Cause", "Limits", "ScrapeError", "connection_failure", "fetch", "http_session"]

Asker = aiohttp.ClientSession | Connections
"""What carries questions: connections are quicker where the same servers are asked again and again."""

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
    session: Asker,
    url: str,
    limits: Limits,
    credentials: Credentials | None = None,
    headers: Mapping[str, str] | None = None,
    also: Sequence[int] = (),
) -> Answer:
    """The whole answer, where its status is 200 or one of ``also``; ScrapeError for anything else."""
    try:
        terms = credentials.terms() if credentials else Terms()
        shown = {"Accept-Encoding": "gzip", **(headers or {}), **terms.headers}
        if isinstance(session, Connections):
            return await _over_connections(session, url, shown, limits, terms, (200, *also))
        return await _over_aiohttp(session, url, shown, limits, terms, (200, *also))
    except InputError as problem:
        raise ScrapeError(str(problem), Cause.CREDENTIALS) from None
    except asyncio.TimeoutError:
        raise ScrapeError(f"no complete answer within {limits.seconds:g} s", Cause.TIMEOUT) from None
    except TooLarge:
        raise ScrapeError(f"the page is larger than {limits.bytes / 2**20:g} MiB", Cause.SIZE) from None
    except (aiohttp.ClientError, NoAnswer, OSError, ValueError) as problem:
        raise ScrapeError(_no_answer(problem)) from None


def _no_answer(problem: Exception) -> str:
    if isinstance(problem, (aiohttp.ClientConnectorError, NotConnected)):
        return f"no connection: {connection_failure(problem)}"
    if isinstance(problem, aiohttp.ServerDisconnectedError) or (isinstance(problem, Ended) and not problem.begun):
        return "the server closed the connection without an answer"
    if isinstance(problem, (aiohttp.ClientPayloadError, Ended)):
        return "the connection ended in the middle of the page"
    if isinstance(problem, (aiohttp.ClientResponseError, NotHttp)):
        return "the answer is not HTTP as we speak it"
    return f"the request failed: {type(problem).__name__}"


def connection_failure(problem: aiohttp.ClientConnectorError | NotConnected) -> str:
    """Why there is no connection, in a few words; certificate errors carry no system error."""
    cause = problem.__cause__ if isinstance(problem, NotConnected) else getattr(problem, "os_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate does not hold: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) or cause is None:
        return f"the TLS handshake failed ({getattr(cause, 'reason', None) or type(problem).__name__})"
    if isinstance(cause, socket.gaierror):
        return "the host name is not known"
    number = getattr(cause, "errno", None)
    return os.strerror(number).lower() if number else str(cause)


async def _over_connections(
    connections: Connections, url: str, headers: Mapping[str, str], limits: Limits, terms: Terms, wanted: Sequence[int]
) -> Answer:
    answer = await connections.get(url, headers, limits, terms, wanted)
    if answer.status not in wanted:
        raise _status(url, answer.status)
    unpacking = _Unpacking(answer.headers.get("content-encoding", "identity"), limits.bytes)
    unpacking.feed(answer.body)
    media_type = answer.headers.get("content-type", "application/octet-stream").partition(";")[0].strip()
    return Answer(unpacking.result(), media_type, answer.status)


async def _over_aiohttp(
    session: aiohttp.ClientSession,
    url: str,
    headers: Mapping[str, str],
    limits: Limits,
    terms: Terms,
    wanted: Sequence[int],
) -> Answer:
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
            raise _status(url, response.status)
        unpacking = _Unpacking(response.headers.get("Content-Encoding", "identity"), limits.bytes)
        async for chunk in response.content.iter_chunked(CHUNK):
            unpacking.feed(chunk)
        return Answer(unpacking.result(), response.content_type, response.status)


def _status(url: str, status: int) -> ScrapeError:
    return ScrapeError(f"the server answers {url} with HTTP {status}", Cause.STATUS)


class _Unpacking:
    """The body, unpacked here: no more of it than is wanted, whatever a small packet claims to hold."""

    def __init__(self, encoding: str, most: int) -> None:
        if encoding.lower() not in ("identity", "gzip"):
            raise ScrapeError("the page is packed in another way than was asked for", Cause.PAGE)
        self._gzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding.lower() == "gzip" else None
        self._most = most
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take in a part of what was sent."""
        try:
            self._body += self._gzip.decompress(chunk, self._most + 1 - len(self._body)) if self._gzip else chunk
        except zlib.error:
            raise ScrapeError("the page is said to be gzip, and is not", Cause.PAGE) from None
        if len(self._body) > self._most:
            raise TooLarge

    def result(self) -> bytes:
        """All of it."""
        if self._gzip and not self._gzip.eof:
            raise ScrapeError("the page ends in the middle: it was cut off on the way", Cause.PAGE)
        return bytes(self._body)
