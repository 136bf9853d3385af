"""Writes down what is decided about alerts, and only then lets the messages about it go.

So a message that went out is known to have been decided on, whenever the process ends: at the next start it is either
sent again, with the same key, or known as told. Where the disk cannot take it, messages go out all the same, and
everything is written anew as soon as it can.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from specwatch.alerting.delivery import Delivery, Message, Outcome
from specwatch.alerting.silences import Silence
from specwatch.sidecar.store import alerts
from specwatch.sidecar.store.alerts import Changes, Kept
from specwatch.sidecar.store.database import Database, StoreError, Work
from specwatch.waiting import within

log = logging.getLogger(__name__)

SEEN_SECONDS = 30.0
"""Time between two notes that alerts are being judged, where nothing else is to be written."""


class Keeper:
    """Between the alert book and the delivery; in memory alone without a database."""

    def __init__(self, database: Database | None, now: Callable[[], float], everything: Callable[[], Kept]) -> None:
        """``everything`` is what is to be kept, the messages in ``note`` that did not go out left out."""
        self._database = database
        self._now = now
        self._everything = everything
        self._changes = Changes()
        self._news = asyncio.Event()
        self._committing = asyncio.Lock()
        self._has_ended = self._is_writing = False
        self._is_behind = False
        """The database lacks something that is known here."""
        self._epoch = database.epoch if database else 0

    def note(self, changes: Changes) -> None:
        """Leave what changed to be written; returns at once."""
        self._changes.states |= changes.states
        self._changes.messages += changes.messages
        self._news.set()

    @property
    def is_busy(self) -> bool:
        """Whether something noted is not yet written and on its way."""
        return self._is_writing or self._news.is_set()

    async def load(self) -> Kept:
        """What an earlier process kept."""
        if self._database is not None:
            with suppress(StoreError):
                return await self._database.read(alerts.load)
        return Kept({}, (), ())

    async def run(self, delivery: Delivery) -> None:
        """Write what is noted, and send, until ``end``."""
        while not self._has_ended or self._news.is_set():
            with suppress(asyncio.TimeoutError):
                await within(SEEN_SECONDS, self._news.wait())
            self._is_writing = True
            self._news.clear()
            try:
                await self._flush(delivery)
            except Exception:
                log.exception("a defect of specwatch in keeping alerts")
            self._is_writing = False

    def end(self) -> None:
        """Let ``run`` write and send what is noted, and return."""
        self._has_ended = True
        self._news.set()

    async def accept(self, messages: list[Message], delivery: Delivery) -> None:
        """Write messages down, and send them: on the disk when this returns."""
        await self._commit(Changes(messages=messages), delivery)

    async def _flush(self, delivery: Delivery) -> None:
        changes, self._changes = self._changes, Changes()
        await self._commit(changes, delivery)

    async def _commit(self, changes: Changes, delivery: Delivery) -> None:
        # One after the other: what is written anew is everything that was sent before, and what is at hand here.
        async with self._committing:
            await self._write_down(changes)
            await delivery.send(changes.messages)

    async def _write_down(self, changes: Changes) -> None:
        if self._is_behind or (self._database and self._database.epoch != self._epoch):
            self._epoch = self._database.epoch if self._database else 0
            self._is_behind = False
            kept = self._everything()
            kept = replace(kept, messages=[*kept.messages, *changes.messages], seen_at=self._now())
            await self._write(partial(alerts.replace_all, kept))
        else:
            await self._write(partial(alerts.apply, changes, self._now()))

    async def settled(self, message: Message, outcome: Outcome) -> None:
        """Keep a message no longer."""
        await self._write(partial(alerts.settle, message, outcome))

    async def add_silence(self, silence: Silence) -> None:
        """Keep a silence: on the disk when this returns."""
        await self._write(partial(alerts.add_silence, silence))

    async def remove_silence(self, silence_id: str) -> None:
        """Keep a silence no longer: so on the disk when this returns."""
        await self._write(partial(alerts.remove_silence, silence_id))

    async def _write(self, work: Work[None]) -> None:
        if self._database is None:
            return
        try:
            await self._database.write(work)
        except StoreError:
            self._is_behind = True
