"""The normals that drift is judged by: kept over restarts in a file, frozen and learned anew by hand."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.sidecar.service import Service
from specwatch.signals.drift import DriftDetector, DriftReading

log = logging.getLogger(__name__)

FORMAT = 1
"""Number of the file's layout; another one is not read."""

SAVE_SECONDS = 60.0
"""Time between writes: a crash costs a minute of what takes an hour to learn."""

LARGEST_FILE = 64 * 2**20
"""Bytes; a thousand servers' detectors take a few."""


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


class References:
    """The detectors of a service, by scope and name; in memory alone without a path."""

    def __init__(self, service: Service, path: Path | None = None) -> None:
        self._service = service
        self._path = path
        self._trouble: str | None = None
        """Why the last write failed: said once, not every minute."""

    def entries(self) -> list[ReferenceEntry]:
        """All of them: servers, models, the fleet."""
        return [ReferenceEntry(scope, name, detector.reading()) for scope, name, detector in self._detectors()]

    def freeze(self, scope: Scope, name: str, reference_name: str) -> DriftReading | None:
        """Keep the present normal as it is, under a name; None where there is no such detector.

        ValueError where nothing is learned yet.
        """
        detector = self._find(scope, name)
        if detector is None:
            return None
        detector.freeze(reference_name)
        self.save()
        return detector.reading()

    def relearn(self, scope: Scope, name: str) -> DriftReading | None:
        """Forget the normal and learn the next traffic as one; None where there is no such detector."""
        detector = self._find(scope, name)
        if detector is None:
            return None
        detector.relearn()
        self.save()
        return detector.reading()

    def restore(self) -> None:
        """Take up what an earlier run left; what cannot be used is named in the log, and learned again."""
        for key, state in _read(self._path).items() if self._path else ():
            scope, _, name = key.partition(" ")
            try:
                self._restore(scope, name, state)
            except ValueError as problem:
                log.warning("%s: the normal of %r cannot be used and is learned again: %s", self._path, key, problem)

    def _restore(self, scope: str, name: str, state: Any) -> None:
        watch = self._service.watches.get(name)
        if scope == Scope.SERVER.value and watch is not None:
            watch.drift = DriftDetector.restore(watch.settings.drift, state)
        elif scope == Scope.MODEL.value:
            self._service.pools.remembered[name] = state
        elif scope == Scope.FLEET.value:
            self._service.pools.fleet.restore(state)

    def save(self) -> None:
        """Write all states, whole or not at all; a disk that cannot take them is named in the log."""
        if self._path is None:
            return
        states = {f"{scope.value} {name}".strip(): detector.state() for scope, name, detector in self._detectors()}
        try:
            _write(self._path, {"format": FORMAT, "references": states})
        except OSError as problem:
            reason = (problem.strerror or str(problem)).lower()
            if reason != self._trouble:
                log.error("%s: what drift has learned cannot be kept: %s", self._path, reason)
            self._trouble = reason
        else:
            self._trouble = None

    async def keep(self) -> None:
        """Save again and again; returns only by cancellation."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            self.save()

    def _detectors(self) -> Iterator[tuple[Scope, str, DriftDetector]]:
        for name, watch in self._service.watches.items():
            yield Scope.SERVER, name, watch.drift
        for model, pool in self._service.pools.models.items():
            yield Scope.MODEL, model, pool.detector
        yield Scope.FLEET, "", self._service.pools.fleet.detector

    def _find(self, scope: Scope, name: str) -> DriftDetector | None:
        return {(found, called): detector for found, called, detector in self._detectors()}.get((scope, name))


def _read(path: Path) -> Mapping[str, Any]:
    """The states in a file; none where there is no file, and where it is damaged, which is logged."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        content = json.loads(raw) if len(raw) <= LARGEST_FILE else None
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise InputError(f"--state-file {path}: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        log.warning("%s: not a state of specwatch, or damaged; every normal is learned again", path)
        return {}
    states = content.get("references")
    return states if isinstance(states, dict) else {}


def _write(path: Path, content: Mapping[str, Any]) -> None:
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
