"""Getting messages to their receivers: a bounded queue and one worker for each, so that none holds up another.

A message is posted until the receiver takes it, refuses it, or a day of waiting is over; it may arrive twice, when only
the answer was lost. Messages of one receiver arrive in order: the next is not posted before it is settled what became
of the one before. Whoever gives the messages may keep them over a restart: ``settled`` tells when one need not be kept.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING

from specwatch.alerting.notification import Notification
from specwatch.alerting.posting import post, session_for
from specwatch.alerting.receivers import Receiver
from specwatch.waiting import within

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

GIVE_UP_SECONDS = 86_400.0
"""How long one message is tried. Outages of Slack and PagerDuty lasted hours; after a day, what it says is old."""

DEAD_LETTERS = 50
"""Messages of a receiver that were given up and are still shown."""


@dataclass(frozen=True)
class Retries:
    """How patiently a message is sent. PagerDuty asks for "a backoff of a few minutes"."""

    first: float = 1.0
    """Seconds before the second attempt; doubled for each one after."""
    longest: float = 300.0
    """Seconds between two attempts at most."""
    give_up: float = GIVE_UP_SECONDS
    """Seconds of pauses after which a message is given up."""

    def pause(self, attempt: int, jitter: float) -> float:
        """Seconds to wait after this attempt, 1 for the first.

        ``jitter``, 0 to 1, spreads many senders over the second half of the pause.
        """
        # Doubled thirty times a second is past any longest pause, and no float overflows.
        whole: float = min(self.first * 2 ** min(attempt - 1, 30), self.longest)
        return whole * (0.5 + 0.5 * jitter)


@dataclass(frozen=True)
class Message:
    """A notification on its way to one receiver."""

    id: int
    """Grows with every message."""
    receiver: str
    notification: Notification
    at: float
    """When it was given to be sent, in Unix seconds."""


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up."""

    receiver: str
    title: str
    at: float
    """When the message was given to be sent, in Unix seconds."""
    reason: str
    """Secrets left out."""

    @classmethod
    def of(cls, message: Message, reason: str) -> DeadLetter:
        """What is left of a message."""
        return cls(message.receiver, message.notification.title, message.at, reason)


@dataclass(frozen=True)
class Outcome:
    """What became of a message."""

    dead: DeadLetter | None = None
    """None: it was taken."""
    thread: str | None = None
    """What the receiver is to be given with the incident's next message."""


Settled = Callable[[Message, Outcome], Awaitable[None]]
"""Told what became of a message."""

Threads = dict[tuple[str, str], str]
"""By receiver and incident, what goes with the incident's next message."""


async def _nobody(message: Message, outcome: Outcome) -> None:
    """Keep no account of it."""


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
    dead_letters: tuple[DeadLetter, ...]
    """The last that were given up, the latest first."""


class Delivery:
    """Sends notifications to all receivers while it is open; use it with ``async with``.

    With ``is_kept`` what waits at the end is not lost: whoever is told by ``settled`` gives it again at the next start.
    """

    def __init__(
        self,
        receivers: Sequence[Receiver],
        *,
        retries: Retries | None = None,
        queue_size: int = 1000,
        timeout: float = 10.0,
        drain_seconds: float = 10.0,
        settled: Settled = _nobody,
        is_kept: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Times are seconds: ``timeout`` for one attempt, ``drain_seconds`` for what is waiting at the end."""
        care = _Care(retries or Retries(), timeout, settled, is_kept, sleep, jitter)
        self._lines = {receiver.name: _Line(receiver, care, queue_size) for receiver in receivers}
        self._drain_seconds = drain_seconds
        self._settled = settled
        self._last_id = 0

    async def __aenter__(self) -> Delivery:
        """Start the workers."""
        for line in self._lines.values():
            line.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is waiting, for a limited time, and stop."""
        await asyncio.gather(*(line.close(self._drain_seconds) for line in self._lines.values()))

    def address(self, notification: Notification, at: float) -> list[Message]:
        """The notification for every receiver, not yet sent."""
        messages = []
        for name in self._lines:
            self._last_id += 1
            messages.append(Message(self._last_id, name, notification, at))
        return messages

    async def send(self, messages: Iterable[Message]) -> None:
        """Queue messages that ``address`` made, now or before a restart, in this order; does not wait nor fail."""
        for message in messages:
            self._last_id = max(self._last_id, message.id)
            if message.receiver in self._lines:
                await self._lines[message.receiver].put(message)
            else:
                log.error("%s: no such receiver any more, a message is lost", message.receiver)
                await self._settled(message, Outcome(DeadLetter.of(message, "no such receiver any more")))

    def bury(self, dead: DeadLetter) -> None:
        """Show a message that was given up before a restart."""
        if dead.receiver in self._lines:
            self._lines[dead.receiver].dead.appendleft(dead)

    def resume(self, threads: Threads) -> None:
        """Take up what receivers are to be given with the next messages."""
        for (receiver, incident), thread in threads.items():
            if receiver in self._lines:
                self._lines[receiver].threads[incident] = thread

    def threads(self) -> Threads:
        """What receivers are to be given with the next messages."""
        lines = self._lines.items()
        return {(name, incident): thread for name, line in lines for incident, thread in line.threads.items()}

    def waiting(self) -> list[Message]:
        """What is not settled, in order."""
        found = [message for line in self._lines.values() for message in line.waiting]
        return sorted(found, key=lambda message: message.id)

    def statuses(self) -> list[ReceiverStatus]:
        """How each receiver does, in the order given."""
        return [line.status() for line in self._lines.values()]


@dataclass(frozen=True)
class _Care:
    """How messages are sent; what the lines have in common."""

    retries: Retries
    timeout: float
    settled: Settled
    is_kept: bool
    sleep: Callable[[float], Awaitable[None]]
    jitter: Callable[[], float]


class _Line:
    """One receiver: its queue, its worker, its counts."""

    def __init__(self, receiver: Receiver, care: _Care, queue_size: int) -> None:
        self._receiver = receiver
        self._care = care
        self._size = queue_size
        self.waiting: deque[Message] = deque()
        """The first is being sent."""
        self.dead: deque[DeadLetter] = deque(maxlen=DEAD_LETTERS)
        self.threads: dict[str, str] = {}
        """By incident."""
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._session: aiohttp.ClientSession | None = None
        self._worker: asyncio.Task[None] | None = None
        self._health = Health.WORKING
        self._sent = self._failed = self._dropped = 0
        self._last_success: float | None = None
        self._last_problem: str | None = None

    def open(self) -> None:
        self._session = session_for(self._receiver.is_local, self._receiver.headers)
        self._worker = asyncio.create_task(self._work(self._session), name=f"deliver to {self._receiver.name}")

    async def close(self, drain_seconds: float) -> None:
        if self._worker is None or self._session is None:
            return
        with suppress(asyncio.TimeoutError):
            await within(drain_seconds, self._empty.wait())
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)
        await self._session.close()
        self._worker = None
        if self.waiting and self._care.is_kept:
            log.warning("%s: %d messages wait for the next start", self._receiver.name, len(self.waiting))
        elif self.waiting:
            log.error("%s: ended with %d messages not delivered", self._receiver.name, len(self.waiting))
            self._dropped += len(self.waiting)
            self.waiting.clear()

    async def put(self, message: Message) -> None:
        """Take a message; when there is no room, the oldest one makes it: the newest says how things are."""
        if self._worker is None:
            await self._lose(message, "nothing is sent before start or after the end", dropped=1)
            return
        self.waiting.append(message)
        self._empty.clear()
        self._news.set()
        if len(self.waiting) > self._size:
            oldest = self.waiting[1]  # the one before is being sent
            del self.waiting[1]
            await self._lose(oldest, "too many are waiting", dropped=1)

    def status(self) -> ReceiverStatus:
        return ReceiverStatus(
            receiver=self._receiver.name,
            health=self._health,
            waiting=len(self.waiting),
            sent=self._sent,
            failed=self._failed,
            dropped=self._dropped,
            last_success=self._last_success,
            last_problem=self._last_problem,
            dead_letters=tuple(self.dead),
        )

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while True:
            while not self.waiting:
                self._empty.set()
                self._news.clear()
                await self._news.wait()
            message = self.waiting[0]
            try:
                await self._deliver(session, message)
            except Exception as problem:
                # A defect of ours in one message must not stop the others; its text may hold a secret.
                await self._lose(message, f"{type(problem).__name__} while sending", failed=1)
            self.waiting.popleft()

    async def _deliver(self, session: aiohttp.ClientSession, message: Message) -> None:
        care, thread = self._care, self.threads.get(message.notification.key)
        waited = 0.0
        for number in itertools.count(1):
            attempt = await post(session, self._receiver, message.notification, thread, care.timeout)
            if attempt.taken:
                await self._succeed(message, attempt.thread)
                return
            if not attempt.worth_retrying or waited >= care.retries.give_up:
                await self._lose(message, attempt.reason, failed=1)
                return
            self._turn(Health.RETRYING, "not taken yet, trying again: " + attempt.reason)
            pause = max(care.retries.pause(number, care.jitter()), attempt.retry_after)
            await care.sleep(pause)
            waited += pause

    async def _succeed(self, message: Message, thread: str | None) -> None:
        self._sent += 1
        self._last_success = time.time()
        if self._health is not Health.WORKING:
            log.info("%s: takes messages again", self._receiver.name)
        self._health = Health.WORKING
        self._last_problem = None
        await self._settle(message, thread)

    async def _settle(self, message: Message, thread: str | None, dead: DeadLetter | None = None) -> None:
        """Remember the incident's thread while it fires, and say what became of the message."""
        incident = message.notification.key
        self.threads.pop(incident, None)
        if thread is not None and message.notification.firing:
            self.threads[incident] = thread
        await self._care.settled(message, Outcome(dead, self.threads.get(incident)))

    async def _lose(self, message: Message, reason: str, *, failed: int = 0, dropped: int = 0) -> None:
        self._failed += failed
        self._dropped += dropped
        dead = DeadLetter.of(message, reason)
        self.dead.appendleft(dead)
        self._turn(Health.LOSING, "a message is lost: " + reason)
        await self._settle(message, self.threads.get(message.notification.key), dead)

    def _turn(self, health: Health, words: str) -> None:
        """Note a worse state, with one log line when it begins."""
        self._last_problem = words
        if health <= self._health:
            return
        self._health = health
        level = logging.ERROR if health is Health.LOSING else logging.WARNING
        log.log(level, "%s: %s", self._receiver.name, words)
