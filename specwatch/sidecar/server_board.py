"""Every server in a few figures, worked out at most once for all who ask: what the list of servers needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specwatch.sidecar.service import Service
from specwatch.sidecar.views import WindowView, number, window_label
from specwatch.sidecar.watch import TargetWatch
from specwatch.signals.catalogue import Value
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level
from specwatch.signals.fleet_diagnosis import diagnose_fleet
from specwatch.signals.speedup import SpeedupKind

SHOWN_SIGNALS = (
    "acceptance_rate",
    "acceptance_length",
    "draft_coverage",
    "estimated_speedup",
    "running_requests",
    "generation_throughput",
)
"""Signals of a line: those that a list of servers has a column for."""

MOST_FINDINGS = 2
"""Findings of a line: the first is shown, and whether any is a problem settles the order."""

REST = 10.0
"""Times as long as a list took of the processor until the next is begun: a tenth of a core at most goes into it."""

SOONEST = 0.5
"""Seconds between two lists at least, however few the servers."""

SLICE = 20
"""Servers worked out in one go: about ten milliseconds, for which scrapes and other answers wait."""


@dataclass(frozen=True)
class ServerName:
    """A target by its name."""

    name: str


@dataclass(frozen=True)
class DriftLine:
    """Drift in short."""

    score: float | None
    reference: float | None
    since: float | None
    learned: float


@dataclass(frozen=True)
class SpeedupLine:
    """The speedup as well as it is known, over the headline window."""

    value: float
    kind: SpeedupKind


@dataclass(frozen=True)
class FindingLine:
    """What a finding says."""

    code: str
    level: Level
    text: str
    cause: str


@dataclass(frozen=True)
class Trend:
    """Acceptance rate over the headline window at the ends of equal steps of time."""

    end: float
    """Unix seconds of the last value; the others stand ``step`` seconds apart before it."""
    step: float
    values: list[float | None]


@dataclass(frozen=True)
class ServerLine:
    """One server in short, under the names that ``/api/v1/signals`` has."""

    target: ServerName
    up: bool | None
    last_scrape: float | None
    model_name: str | None
    k: int | None
    headline_window: str
    windows: Mapping[str, WindowView]
    """The headline window alone, and of its signals those of ``SHOWN_SIGNALS``."""
    since_start: Mapping[str, float]
    drift: DriftLine
    speedups: list[SpeedupLine]
    """The best known alone."""
    findings: list[FindingLine]
    """The most important ones."""
    trend: Trend


class _Turns:
    """Leaves the event loop to others every SLICE servers, and counts the processor time that was not theirs."""

    def __init__(self) -> None:
        self._servers = 0
        self._spent = 0.0
        self._began = time.thread_time()

    async def next(self) -> None:
        """One server is done."""
        self._servers += 1
        if self._servers % SLICE == 0:
            self._spent = self.spent()
            await asyncio.sleep(0)
            self._began = time.thread_time()

    def spent(self) -> float:
        """Seconds of processor time so far."""
        return self._spent + time.thread_time() - self._began


class ServerBoard:
    """Works out all lines when something was scraped, and not more often than is cheap."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._working = asyncio.Lock()
        self._lines: list[ServerLine] = []
        self._findings: Mapping[str, Sequence[Finding]] = {}
        self._scrapes = -1
        self._rests_until = 0.0
        self.at = 0.0
        """When the lines were worked out, unix seconds."""
        self.revision = 0
        """Number of the list: it grows when the lines may differ."""

    @property
    def scrapes(self) -> int:
        """Scrapes of all targets so far: nothing is new while it stays."""
        return sum(tally.scrapes for tally in self._service.tallies.values())

    def findings(self, name: str) -> Sequence[Finding] | None:
        """What the last list's diagnosis found on one target, its replicas in view; None where it knows none."""
        return self._findings.get(name) or None

    async def lines(self) -> list[ServerLine]:
        """Every target in the order given, as of ``at``."""
        async with self._working:
            if self._scrapes != self.scrapes and time.monotonic() >= self._rests_until:
                began, turns = time.monotonic(), _Turns()
                await self._work_out(turns)
                self._rests_until = began + max(SOONEST, REST * turns.spent())
        return self._lines

    async def _work_out(self, turns: _Turns) -> None:
        now, scrapes = self._service.clock.now(), self.scrapes
        watches = list(self._service.watches.values())
        evidences: dict[str, Evidence] = {}
        for watch in watches:
            if evidence := watch.evidence(now):
                evidences[watch.target.name] = evidence
            await turns.next()
        self._findings = diagnose_fleet(evidences)
        lines = []
        for watch in watches:
            lines.append(self._line(watch, now))
            await turns.next()
        self._lines = lines
        self._scrapes, self.at, self.revision = scrapes, now, self.revision + 1

    def _line(self, watch: TargetWatch, now: float) -> ServerLine:
        headline, window, drift = watch.headline_view(now), window_label(watch.settings.headline), watch.drift.reading()
        findings = self._findings.get(watch.target.name) or watch.findings(now)
        shown = {name: _short(headline.values[name]) for name in SHOWN_SIGNALS}
        return ServerLine(
            target=ServerName(watch.target.name),
            up=watch.up,
            last_scrape=watch.last_scrape,
            model_name=watch.model_name,
            k=watch.k,
            headline_window=window,
            windows={window: WindowView(headline.seconds, shown)},
            since_start=watch.since_start,
            drift=DriftLine(drift.score, drift.reference, drift.since, drift.learned),
            speedups=[SpeedupLine(best.value, best.kind) for best in watch.speedups(now)[:1]],
            findings=[FindingLine(f.code, f.level, f.text, f.cause) for f in findings[:MOST_FINDINGS]],
            trend=_trend(watch, now),
        )


def _short(value: Value) -> Value:
    """A signal's value with as many digits as anybody reads: four after the point."""
    return round(value, 4) if isinstance(value, float) else value


def _trend(watch: TargetWatch, now: float) -> Trend:
    """Acceptance by step up to now."""
    step, latest = watch.trend.step, number(watch.headline_values(now), "acceptance_rate")
    values = (*watch.trend.until(now)[:-1], latest)
    return Trend(now // step * step, step, [_rate(value) for value in values])


def _rate(value: float | None) -> float | None:
    """Three digits of a ratio: a trend is drawn, never read as a number."""
    return None if value is None else round(value, 3)
