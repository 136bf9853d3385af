"""Connections to servers that are asked again and again: one stays open to each, and a question costs little.

aiohttp does the same and much more: it took half of what a scrape cost.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote, urlsplit

from specwatch import __version__
from specwatch.collect.asking import Limits
from specwatch.collect.credentials import Terms
from specwatch.collect.raw_answer import NoAnswer, NotHttp, RawAnswer, TooLarge
from specwatch.waiting import within

IDLE_SECONDS = 120.0
"""How long a connection is kept for the next question. A server that closes it sooner is asked anew."""

SWEEP_SECONDS = 10.0
"""Between looks for connections that have been idle for so long."""

RESOLVERS = 32
"""Names that are looked up at a time. They have threads of their own: where DNS is gone, each waits for seconds, and
nothing else may wait behind them."""

NEXT_ADDRESS_SECONDS = 0.25
"""After which another address of a name is tried beside one that has not answered (RFC 8305)."""

QUOTED = "/?:@!$&'()*+,;=~%"
"""Stays as it is in a path and a query."""


class Ended(NoAnswer):
    """The connection was closed before the answer was complete."""

    def __init__(self, begun: bool) -> None:
        super().__init__()
        self.begun = begun
        """Whether any of it had come."""


class NotConnected(NoAnswer):
    """There is no connection; the cause is the system's error."""


@dataclass(frozen=True)
class Place:
    """Where a URL leads."""

    host: str
    port: int
    is_encrypted: bool
    is_name: bool
    """Whether the host is to be looked up."""
    question: str
    """First lines of a request."""


@lru_cache(maxsize=16384)
def place(url: str) -> Place:
    """ValueError for a URL that leads to no server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("no server's URL")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    written = (f"[{host}]" if ":" in host else host) + (f":{parts.port}" if parts.port else "")
    target = quote(parts.path or "/", safe=QUOTED) + (f"?{quote(parts.query, safe=QUOTED)}" if parts.query else "")
    is_encrypted = parts.scheme == "https"
    return Place(
        host=host,
        port=parts.port or (443 if is_encrypted else 80),
        is_encrypted=is_encrypted,
        is_name=not _is_address(host),
        question=f"GET {target} HTTP/1.1\r\nHost: {written}\r\nUser-Agent: specwatch/{__version__}\r\n",
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


ARRIVING = memoryview(bytearray(2**16))
"""Where bytes are put as they arrive, of whichever connection, until its answer has taken them in at once."""


class _Connection(asyncio.BufferedProtocol):
    """One connection, asked one question at a time."""

    def __init__(self) -> None:
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answer: RawAnswer | None = None
        self._over: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        # uvloop's are none of asyncio's classes.
        self._transport, self.is_open = cast("asyncio.Transport", transport), True

    def get_buffer(self, _: int) -> memoryview:
        """Where to put what arrives."""
        return ARRIVING

    def buffer_updated(self, size: int) -> None:
        """A part of the answer has come; what nobody asked for ends the connection."""
        if self._answer is None:
            self.close()
            return
        try:
            self._answer.feed(bytes(ARRIVING[:size]))
        except (NotHttp, TooLarge) as problem:
            self._end(problem)
        else:
            if self._answer.complete:
                self._end()

    def connection_lost(self, _: Exception | None) -> None:
        """It is closed."""
        self.is_open = False
        if self._answer is not None:
            self._answer.end()
            self._end(None if self._answer.complete else Ended(self._answer.begun))

    async def ask(self, question: bytes, answer: RawAnswer, seconds: float) -> RawAnswer:
        """Fill the answer; TimeoutError, Ended, NotHttp or TooLarge where there is none: it is closed then."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self._answer, self._over = answer, over
        timer = loop.call_later(seconds, self._end, asyncio.TimeoutError())
        try:
            if self._transport is not None:
                self._transport.write(question)
            await over
        finally:
            timer.cancel()
            self._answer = self._over = None
            if not answer.reusable:
                self.close()
        return answer

    def _end(self, problem: Exception | None = None) -> None:
        if self._over is None or self._over.done():
            return
        if problem is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(problem)

    def close(self) -> None:
        """Let go of it at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()


Key = tuple[str, int, ssl.SSLContext | bool, str | None]
"""What connections have in common that can take each other's place."""


class Connections:
    """Those to all servers."""

    def __init__(self) -> None:
        self._idle: dict[Key, list[tuple[_Connection, float]]] = {}
        """Kept for the next question, with the moment since when, on the monotonic clock."""
        self._swept = time.monotonic()
        self._threads = ThreadPoolExecutor(RESOLVERS, thread_name_prefix="names")
        self._trusting: ssl.SSLContext | None = None

    async def get(
        self, url: str, headers: Mapping[str, str], limits: Limits, terms: Terms, wanted: Container[int]
    ) -> RawAnswer:
        """The answer, with its body where its status is a wanted one.

        ValueError for a URL or a header that cannot be used; NotConnected; and what ``_Connection.ask`` raises.
        """
        where = place(url)
        question = _question(where, headers)
        until = time.monotonic() + limits.seconds
        key: Key = (where.host, where.port, where.is_encrypted and terms.tls, terms.server_name)
        while kept := self._take(key):
            try:
                return await self._ask(key, kept, question, RawAnswer(limits.bytes, wanted), until)
            except Ended as ended:
                # The server gave the connection up while the question was on its way, as it may when nothing is asked.
                if ended.begun:
                    raise
        connection = await within(until - time.monotonic(), self._connect(where, key))
        return await self._ask(key, connection, question, RawAnswer(limits.bytes, wanted), until)

    async def _ask(
        self, key: Key, connection: _Connection, question: bytes, answer: RawAnswer, until: float
    ) -> RawAnswer:
        await connection.ask(question, answer, until - time.monotonic())
        if connection.is_open:
            self._idle.setdefault(key, []).append((connection, time.monotonic()))
        return answer

    def _take(self, key: Key) -> _Connection | None:
        now = time.monotonic()
        if now - self._swept > SWEEP_SECONDS:
            self._sweep(now)
        kept = self._idle.get(key)
        while kept:
            connection, _ = kept.pop()
            if connection.is_open:
                return connection
        return None

    def _sweep(self, now: float) -> None:
        self._swept = now
        for key, kept in list(self._idle.items()):
            stays = [(one, since) for one, since in kept if one.is_open and now - since < IDLE_SECONDS]
            for one, _ in set(kept) - set(stays):
                one.close()
            if stays:
                self._idle[key] = stays
            else:
                del self._idle[key]

    async def _connect(self, where: Place, key: Key) -> _Connection:
        tls, server_name = key[2:]
        encryption: dict[str, Any] = {}
        if tls:
            encryption = {"ssl": self._context(tls), "server_hostname": server_name or where.host}
        loop = asyncio.get_running_loop()
        try:
            addresses = await self._addresses(where)
        except OSError as problem:
            raise NotConnected from problem
        attempts = [
            functools.partial(loop.create_connection, _Connection, address, where.port, **encryption)
            for address in addresses
        ]
        return await _first(attempts)

    def _context(self, tls: ssl.SSLContext | bool) -> ssl.SSLContext:
        if isinstance(tls, ssl.SSLContext):
            return tls
        # Reading the system's authorities takes a hundredth of a second.
        self._trusting = self._trusting or ssl.create_default_context()
        return self._trusting

    async def _addresses(self, where: Place) -> list[str]:
        if not where.is_name:
            return [where.host]
        ask = functools.partial(
            socket.getaddrinfo, where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [str(address[0]) for *_, address in found]

    def close(self) -> None:
        """Let go of all of them."""
        for kept in self._idle.values():
            for connection, _ in kept:
                connection.close()
        self._idle.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)


Attempt = Callable[[], Coroutine[Any, Any, tuple[asyncio.BaseTransport, _Connection]]]


async def _first(attempts: Sequence[Attempt]) -> _Connection:
    """The connection that stands first; each attempt begins when the one before has failed or takes long.

    NotConnected where none stands.
    """
    under_way: set[asyncio.Task[tuple[asyncio.BaseTransport, _Connection]]] = set()
    problem: OSError | None = None
    waiting = list(attempts)
    try:
        while waiting or under_way:
            if waiting:
                under_way.add(asyncio.create_task(waiting.pop(0)()))
            patience = NEXT_ADDRESS_SECONDS if waiting else None
            done, under_way = await asyncio.wait(under_way, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                try:
                    return task.result()[1]
                except OSError as failure:
                    problem = failure
    finally:
        for task in under_way:
            task.cancel()
            task.add_done_callback(_close)
    raise NotConnected from problem


def _close(task: asyncio.Task[tuple[asyncio.BaseTransport, _Connection]]) -> None:
    """Nobody needs what this attempt has made any more."""
    if not task.cancelled() and task.exception() is None:
        task.result()[1].close()


def _question(where: Place, headers: Mapping[str, str]) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    if any(line.count("\n") > 1 or line.count("\r") > 1 for line in lines):
        raise ValueError("a header of several lines")
    return f"{where.question}{''.join(lines)}\r\n".encode()


@asynccontextmanager
async def connections() -> AsyncIterator[Connections]:
    """Connections for as long as this is open."""
    held = Connections()
    try:
        yield held
    finally:
        held.close()
