"""The normals that drift is judged by: kept over restarts, frozen and learned anew by hand."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any
from weakref import WeakSet

from specwatch.sidecar.keeping import again
from specwatch.sidecar.pools import Pool
from specwatch.sidecar.service import Service
from specwatch.sidecar.store import references as stored
from specwatch.sidecar.store.database import Database, StoreError
from specwatch.sidecar.watch import TargetWatch
from specwatch.signals.drift import DriftDetector, DriftReading

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Time between writes: a crash costs a minute of what takes an hour to learn."""

LOOK_SECONDS = 5.0
"""Time between looks for who came new: what it learned until then is given up for what is known of it."""

SLICE = 20
"""States written as JSON in one go: about two milliseconds, for which scrapes and answers wait."""


class Scope(str, Enum):
    """Whose normal."""

    SERVER = "server"
    MODEL = "model"
    FLEET = "fleet"


@dataclass(frozen=True)
class ReferenceEntry:
    """One normal, as the API tells it."""

    scope: Scope
    name: str
    """Target or model; empty for the fleet."""
    drift: DriftReading


Learner = TargetWatch | Pool
"""Who has a detector."""


class References:
    """The detectors of a service, by scope and name."""

    def __init__(self, service: Service, database: Database | None = None) -> None:
        self._service = service
        self._database = database or Database()
        self._taken_up: WeakSet[Learner] = WeakSet()
        """Those that were given what was known of them: before that, nothing of theirs is written over it."""

    def entries(self) -> list[ReferenceEntry]:
        """All of them: servers, models, the fleet."""
        return [ReferenceEntry(scope, name, _detector(learner).reading()) for scope, name, learner in self._learners()]

    async def freeze(self, scope: Scope, name: str, reference_name: str) -> DriftReading | None:
        """Keep the present normal as it is, under a name; None where there is no such detector.

        ValueError where nothing is learned yet. On the disk when this returns, where there is one that takes it.
        """
        learner = self._find(scope, name)
        if learner is None:
            return None
        _detector(learner).freeze(reference_name)
        await self._save_one(scope, name, learner)
        return _detector(learner).reading()

    async def relearn(self, scope: Scope, name: str) -> DriftReading | None:
        """Forget the normal and learn the next traffic as one; None where there is no such detector."""
        learner = self._find(scope, name)
        if learner is None:
            return None
        _detector(learner).relearn()
        await self._save_one(scope, name, learner)
        return _detector(learner).reading()

    async def keep(self) -> None:
        """Give those that come what is known of them, and save all; returns only by cancellation."""
        await self.take_up()
        await asyncio.gather(again(self.take_up, LOOK_SECONDS), again(self.save, SAVE_SECONDS))

    async def take_up(self) -> None:
        """Give everyone who is new what was learned of it earlier; what cannot be used is logged and learned again."""
        new = {(s.value, name): who for s, name, who in self._learners() if who not in self._taken_up}
        if not new:
            return
        try:
            states = await self._database.read(partial(stored.load, keys=list(new)))
        except StoreError:
            return
        for key, learner in new.items():
            if key in states:
                _restore(key, learner, states[key])
            self._taken_up.add(learner)

    async def save(self) -> None:
        """Write the states of all; where the disk takes none, the next time."""
        states: dict[stored.Key, str] = {}
        for index, (scope, name, learner) in enumerate(list(self._learners())):
            if learner in self._taken_up:
                states[scope.value, name] = _state(learner)
            if index % SLICE == SLICE - 1:
                await asyncio.sleep(0)
        await self._write(states)

    async def _save_one(self, scope: Scope, name: str, learner: Learner) -> None:
        self._taken_up.add(learner)
        await self._write({(scope.value, name): _state(learner)})

    async def _write(self, states: dict[stored.Key, str]) -> None:
        work = partial(stored.save, states=states, now=self._service.clock.now())
        try:
            await self._database.write(work)
        except StoreError:
            log.debug("what drift has learned is written the next time")

    def _learners(self) -> Iterator[tuple[Scope, str, Learner]]:
        for name, watch in self._service.watches.items():
            yield Scope.SERVER, name, watch
        for model, pool in self._service.pools.models.items():
            yield Scope.MODEL, model, pool
        yield Scope.FLEET, "", self._service.pools.fleet

    def _find(self, scope: Scope, name: str) -> Learner | None:
        return {(found, called): learner for found, called, learner in self._learners()}.get((scope, name))


def _detector(learner: Learner) -> DriftDetector:
    return learner.drift if isinstance(learner, TargetWatch) else learner.detector


def _state(learner: Learner) -> str:
    return json.dumps(_detector(learner).state(), separators=(",", ":"))


def _restore(key: stored.Key, learner: Learner, text: str) -> None:
    try:
        state: Any = json.loads(text)
        if isinstance(learner, TargetWatch):
            learner.drift = DriftDetector.restore(learner.settings.drift, state)
        else:
            learner.restore(state)
    except (ValueError, RecursionError) as problem:
        log.warning("the normal of %s %r cannot be used and is learned again: %s", *key, problem)
