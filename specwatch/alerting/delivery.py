"""Getting notifications to their receivers: a bounded queue and one worker for each, so that none holds up another.

A message is posted until the receiver takes it, refuses it, or the attempts are used up; it may arrive twice, when
only the answer was lost. Messages of one receiver arrive in order. The queues are in memory: what is not delivered
when the process ends is lost, and counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from enum import IntEnum
from http import HTTPStatus
from types import TracebackType

import aiohttp

from specwatch import __version__
from specwatch.alerting.notification import Notification
from specwatch.alerting.receivers import Receiver
from specwatch.alerting.text import clean, cut

log = logging.getLogger(__name__)

LONGEST_RETRY_AFTER = 3600.0
"""Seconds; a receiver that asks for a longer pause is asked again after an hour."""

SHOWN_ANSWER = 200
"""Characters of a receiver's answer in a log line: its error, such as ``invalid_blocks``, comes first."""

READ_ANSWER = 4096
"""Bytes read of a receiver's answer."""


@dataclass(frozen=True)
class Retries:
    """How patiently a message is sent. PagerDuty asks for "a backoff of a few minutes"."""

    attempts: int = 12
    """In all: with these pauses a message waits up to 18 minutes for a receiver that is away."""
    first: float = 1.0
    """Seconds before the second attempt; doubled for each one after."""
    longest: float = 300.0
    """Seconds between two attempts at most."""

    def pause(self, attempt: int, jitter: float) -> float:
        """Seconds to wait after this attempt, 1 for the first.

        ``jitter``, 0 to 1, spreads many senders over the second half of the pause.
        """
        whole: float = min(self.first * 2 ** (attempt - 1), self.longest)
        return whole * (0.5 + 0.5 * jitter)


class Health(IntEnum):
    """How a receiver does, from good to bad."""

    WORKING = 0
    RETRYING = 1
    LOSING = 2


@dataclass(frozen=True)
class ReceiverStatus:
    """Counts of one receiver since start."""

    receiver: str
    health: Health
    waiting: int
    """Messages in the queue, the one that is being sent included."""
    sent: int
    failed: int
    """Messages that the receiver refused, or did not take in all attempts."""
    dropped: int
    """Messages that were never tried to the end: the queue was full, or the process ended."""
    last_success: float | None
    """Unix seconds."""
    last_problem: str | None
    """What last went wrong, secrets left out; None once messages are taken again."""


class Delivery:
    """Sends notifications to all receivers while it is open; use it with ``async with``."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        *,
        retries: Retries | None = None,
        queue_size: int = 1000,
        timeout: float = 10.0,
        drain_seconds: float = 10.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Times are seconds: ``timeout`` for one attempt, ``drain_seconds`` for what is waiting at the end."""
        sender = _Sender(retries or Retries(), timeout, sleep, jitter)
        self._lines = [_Line(receiver, sender, queue_size) for receiver in receivers]
        self._drain_seconds = drain_seconds

    async def __aenter__(self) -> Delivery:
        """Start the workers."""
        for line in self._lines:
            line.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is waiting, for a limited time, and stop."""
        await asyncio.gather(*(line.close(self._drain_seconds) for line in self._lines))

    async def send(self, notification: Notification) -> None:
        """Hand a notification to every receiver; returns at once and does not fail."""
        for line in self._lines:
            line.put(notification)

    def statuses(self) -> list[ReceiverStatus]:
        """How each receiver does, in the order given."""
        return [line.status() for line in self._lines]


@dataclass(frozen=True)
class _Attempt:
    """What came of posting a message once."""

    taken: bool
    worth_retrying: bool = False
    reason: str = ""
    retry_after: float = 0.0


@dataclass(frozen=True)
class _Sender:
    """Posts messages; what the lines have in common."""

    retries: Retries
    timeout: float
    sleep: Callable[[float], Awaitable[None]]
    jitter: Callable[[], float]

    async def post(self, session: aiohttp.ClientSession, receiver: Receiver, notification: Notification) -> _Attempt:
        """One attempt."""
        try:
            async with session.post(
                receiver.url.reveal(),
                json=receiver.payload(notification),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=self.timeout),
            ) as response:
                body = (await response.content.read(READ_ANSWER)).decode(errors="replace")
                return _judge(receiver, response.status, body, response.headers.get("Retry-After"))
        except asyncio.TimeoutError:
            return _Attempt(taken=False, worth_retrying=True, reason=f"no answer within {self.timeout:g} s")
        except (aiohttp.ClientError, OSError) as problem:
            return _Attempt(taken=False, worth_retrying=True, reason=_words(problem))


class _Line:
    """One receiver: its queue, its worker, its counts."""

    def __init__(self, receiver: Receiver, sender: _Sender, queue_size: int) -> None:
        self._receiver = receiver
        self._sender = sender
        self._queue: asyncio.Queue[Notification] = asyncio.Queue(queue_size)
        self._session: aiohttp.ClientSession | None = None
        self._worker: asyncio.Task[None] | None = None
        self._health = Health.WORKING
        self._waiting = self._sent = self._failed = self._dropped = 0
        self._last_success: float | None = None
        self._last_problem: str | None = None

    def open(self) -> None:
        # Proxies of the environment lead out of the house; a receiver on this machine is not behind one.
        self._session = aiohttp.ClientSession(
            trust_env=not self._receiver.is_local,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"specwatch/{__version__}", "Accept-Encoding": "identity"},
        )
        self._worker = asyncio.create_task(self._work(self._session), name=f"deliver to {self._receiver.name}")

    async def close(self, drain_seconds: float) -> None:
        if self._worker is None or self._session is None:
            return
        try:
            await asyncio.wait_for(self._queue.join(), drain_seconds)
        except asyncio.TimeoutError:
            log.error("%s: ended with %d messages not delivered", self._receiver.name, self._waiting)
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        await self._session.close()
        self._worker = None
        self._dropped += self._waiting
        self._waiting = 0

    def put(self, notification: Notification) -> None:
        """Take a message; when there is no room, the oldest one makes it: the newest says how things are."""
        if self._worker is None:
            self._lose("nothing is sent before start or after the end", dropped=1)
            return
        if self._queue.full():
            self._queue.get_nowait()
            self._done()
            self._lose("too many are waiting", dropped=1)
        self._queue.put_nowait(notification)
        self._waiting += 1

    def status(self) -> ReceiverStatus:
        return ReceiverStatus(
            receiver=self._receiver.name,
            health=self._health,
            waiting=self._waiting,
            sent=self._sent,
            failed=self._failed,
            dropped=self._dropped,
            last_success=self._last_success,
            last_problem=self._last_problem,
        )

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while True:
            notification = await self._queue.get()
            try:
                await self._deliver(session, notification)
            except Exception as problem:
                # A defect of ours in one message must not stop the others; its text may hold a secret.
                self._lose(f"{type(problem).__name__} while sending", failed=1)
            self._done()

    async def _deliver(self, session: aiohttp.ClientSession, notification: Notification) -> None:
        sender = self._sender
        for number in range(1, sender.retries.attempts + 1):
            attempt = await sender.post(session, self._receiver, notification)
            if attempt.taken:
                self._succeed()
                return
            if not attempt.worth_retrying or number == sender.retries.attempts:
                self._lose(attempt.reason, failed=1)
                return
            self._turn(Health.RETRYING, "not taken yet, trying again: " + attempt.reason)
            await sender.sleep(max(sender.retries.pause(number, sender.jitter()), attempt.retry_after))

    def _done(self) -> None:
        self._queue.task_done()
        self._waiting -= 1

    def _succeed(self) -> None:
        self._sent += 1
        self._last_success = time.time()
        if self._health is not Health.WORKING:
            log.info("%s: takes messages again", self._receiver.name)
        self._health = Health.WORKING
        self._last_problem = None

    def _lose(self, reason: str, *, failed: int = 0, dropped: int = 0) -> None:
        self._failed += failed
        self._dropped += dropped
        self._turn(Health.LOSING, "a message is lost: " + reason)

    def _turn(self, health: Health, words: str) -> None:
        """Note a worse state, with one log line when it begins."""
        self._last_problem = words
        if health <= self._health:
            return
        self._health = health
        level = logging.ERROR if health is Health.LOSING else logging.WARNING
        log.log(level, "%s: %s", self._receiver.name, words)


def _words(problem: Exception) -> str:
    """Why there was no answer. An exception's own text may hold the address, so none is passed on."""
    if isinstance(problem, aiohttp.ClientConnectorCertificateError):
        return "no connection: its certificate is not trusted"
    if isinstance(problem, aiohttp.ClientSSLError):
        return "no connection: it does not speak TLS as we do"
    if isinstance(problem, aiohttp.ClientConnectorError):
        number = problem.os_error.errno or 0
        # A name that cannot be resolved comes with a negative number and words of its own.
        return f"no connection: {os.strerror(number) if number > 0 else problem.os_error.strerror}"
    return f"no answer: {type(problem).__name__}"


def _judge(receiver: Receiver, status: int, body: str, retry_after: str | None) -> _Attempt:
    if receiver.accepts(status, body):
        return _Attempt(taken=True)
    answer = cut(clean(receiver.redact(body)).strip(), SHOWN_ANSWER)
    # A success that does not come from the receiver itself is some proxy's page, which may go away.
    is_temporary = status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500 or status < 300
    return _Attempt(
        taken=False,
        worth_retrying=is_temporary,
        reason=f"HTTP {status} {answer}".strip(),
        retry_after=min(_seconds(retry_after, time.time()), LONGEST_RETRY_AFTER),
    )


def _seconds(retry_after: str | None, now: float) -> float:
    """What a ``Retry-After`` header asks for, in seconds or as a date; 0 where it cannot be read."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max(until.timestamp() - now, 0.0)
