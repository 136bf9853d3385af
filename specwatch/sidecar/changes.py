"""Changes of acceptance, noted as drift finds them, and kept when they are over."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from specwatch.sidecar.keeping import again
from specwatch.sidecar.references import ReferenceEntry, References, Scope
from specwatch.sidecar.service import Clock
from specwatch.sidecar.store import changes as stored
from specwatch.sidecar.store.database import Database, StoreError
from specwatch.sidecar.views import AcceptanceChange

LOOK_SECONDS = 5.0
"""Time between looks: drift says something new every fifteen seconds at most."""


class Changes:
    """Looks at every normal's detector again and again, and writes down what it finds."""

    def __init__(self, references: References, clock: Clock, database: Database) -> None:
        self._references = references
        self._clock = clock
        self._database = database
        self._epoch = database.epoch
        self._under_way: dict[tuple[str, str], AcceptanceChange] = {}
        self._unsaved: dict[tuple[str, str, float], AcceptanceChange] = {}

    async def keep(self) -> None:
        """Look and write, again and again; returns only by cancellation."""
        await self.recall()
        await again(self.look, LOOK_SECONDS)

    async def recall(self) -> None:
        """Go on with the changes that an earlier run has seen begin."""
        try:
            known = await self._database.read(stored.under_way)
        except StoreError:
            return
        self._under_way = {(change.scope, change.name): change for change in known} | self._under_way

    async def look(self) -> None:
        """Note what has begun, moved or ended; what the disk does not take now is written the next time."""
        for entry in self._references.entries():
            self._note(entry)
        if self._database.epoch != self._epoch:
            self._epoch = self._database.epoch
            for change in self._under_way.values():
                self._set(change)
        waiting = dict(self._unsaved)
        if not waiting:
            return
        try:
            await self._database.write(partial(stored.save, changes=waiting.values()))
        except StoreError:
            return
        self._unsaved = {key: change for key, change in self._unsaved.items() if waiting.get(key) is not change}

    async def tell(
        self, start: float, end: float, scope: Scope | None = None, name: str | None = None
    ) -> list[AcceptanceChange]:
        """Those that were under way at some time from ``start`` to ``end``, oldest first."""
        try:
            return await self._database.read(
                partial(stored.load, start=start, end=end, scope=scope.value if scope else None, name=name)
            )
        except StoreError:
            return []

    def _note(self, entry: ReferenceEntry) -> None:
        now, drift = self._clock.now(), entry.drift
        key = (entry.scope.value, entry.name)
        before = self._under_way.get(key)
        if before is not None and before.direction != drift.direction:
            self._set(replace(before, ended_at=now))
            del self._under_way[key]
            before = None
        is_found = max(drift.score or 0.0, drift.rise_score or 0.0) >= 1.0
        if drift.direction is None or drift.since is None or not (before or is_found):
            return
        found_at = before.found_at if before else now
        change = AcceptanceChange(
            *key,
            found_at,
            drift.direction,
            drift.since,
            drift.reference,
            drift.change,
            drift.change_low,
            drift.change_high,
        )
        if change != before:
            self._under_way[key] = change
            self._set(change)

    def _set(self, change: AcceptanceChange) -> None:
        self._unsaved[change.scope, change.name, change.found_at] = change
