"""A target's past: collected from the watches, written in the background, told as figures by step."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

from specwatch.sidecar.keeping import again
from specwatch.sidecar.service import Service
from specwatch.sidecar.store import history as stored
from specwatch.sidecar.store.database import Database, StoreError
from specwatch.sidecar.views import AcceptanceChange, Stretch
from specwatch.signals.catalogue import signal
from specwatch.signals.formula import Ratio
from specwatch.signals.speedup import SpeedupKind
from specwatch.signals.window import LONGEST_STRETCH, Increments
from specwatch.vllm.metrics import Counter

COLLECT_SECONDS = 1.0
"""Time between two looks at what the watches have for us."""

SAVE_SECONDS = 10.0
"""Time between writes: what a crash of the machine costs, and of the process. Each is one fsync."""

MOST_WAITING = 100_000
"""Stretches that wait for a disk that takes none, all targets together: then the oldest go. A thousand servers scraped
every five seconds bring as many in eight minutes."""

MOST_BYTES = 2 * 2**30
"""Of the database. A target takes 1.1 MB at most where it is scraped every five seconds: room for 1,800 of them, and
for more with a shorter past."""

MOST_BYTES_IN_MEMORY = 64 * 2**20
"""The same without a database: two thirds of what a process that watches a thousand servers may take is left to it."""

WINDOW = 3600.0
"""Seconds that are told where none are asked for."""

POINTS = 240
"""Points that are told where no step is asked for: one every four pixels of a wide chart."""

FINEST_STEP = 1.0
"""Seconds; more than one scrape a second is not kept."""

MOST_POINTS = 4000
"""Points of one answer: as many as the widest screens have pixels, in a few tenths of a second of one core."""

FORMULAS: Mapping[str, Ratio] = {
    name: formula
    for name in (
        "acceptance_rate",
        "acceptance_length",
        "draft_length",
        "draft_coverage",
        "tpot",
        "step_latency",
        "generation_throughput",
        "running_requests",
        "waiting_requests",
    )
    if isinstance(formula := signal(name).formula, Ratio)
}
"""Signals that a past is told in, those that follow from pooled counts alone."""


@dataclass(frozen=True)
class HistoryPoint:
    """One target's figures at the end of a step.

    Signals are pooled over the step up to ``at``, or over the headline window where that is longer, and have no value
    where that is not enough to say.
    """

    at: float
    """Unix seconds."""
    seconds: float
    """Seconds that the signals really cover."""
    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    draft_length: float | None = None
    draft_coverage: float | None = None
    tpot: float | None = None
    step_latency: float | None = None
    generation_throughput: float | None = None
    running_requests: float | None = None
    waiting_requests: float | None = None
    speedup: float | None = None
    """As well as it was known at ``at``, over the headline window."""
    speedup_kind: SpeedupKind | None = None
    drift_score: float | None = None
    """At ``at``."""


@dataclass(frozen=True)
class TargetHistory:
    """One target's figures over a range of time, oldest first."""

    target: str
    start: float
    end: float
    """Unix seconds."""
    step: float
    window: float
    """Seconds that the signals of one point cover, where so much is known."""
    kept_until: float | None
    """Up to when it outlives this process, unix seconds; None where nothing is kept on a disk."""
    points: list[HistoryPoint]
    changes: list[AcceptanceChange] = field(default_factory=list)
    """Times in which its acceptance was not at its normal, those that began earlier and last included."""


class History:
    """Collects from a service's watches, and answers for them and for targets that are gone."""

    def __init__(self, service: Service, database: Database | None = None) -> None:
        self._service = service
        self._database = database or Database()
        self._most_bytes = MOST_BYTES if self._database.status.path else MOST_BYTES_IN_MEMORY
        self._waiting: deque[tuple[str, Stretch]] = deque(maxlen=MOST_WAITING)
        self._turns = asyncio.Lock()
        """Nothing is read while what waits is on its way to the disk: it would be told twice or not at all."""

    async def keep(self) -> None:
        """Collect and write, again and again; returns only by cancellation."""
        await asyncio.gather(self.recall(), again(self._collect_all, COLLECT_SECONDS), again(self.save, SAVE_SECONDS))

    async def recall(self) -> None:
        """Give the watches the last hours' trend, as an earlier run has left it."""
        now = self._service.clock.now()
        for name, watch in list(self._service.watches.items()):
            for past in (watch.trend, watch.hours):
                told = await self.tell(name, now - past.seconds, now, past.step)
                past.recall({point.at: point.acceptance_rate for point in told.points} if told else {})

    async def save(self) -> None:
        """Write what is new; what the disk does not take now waits for the next time."""
        async with self._turns:
            self._collect()
            new, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
            work = partial(stored.save, stretches=new, now=self._service.clock.now(), most_bytes=self._most_bytes)
            try:
                await self._database.write(work)
            except (StoreError, asyncio.CancelledError) as problem:
                self._waiting = deque([*new, *self._waiting], maxlen=MOST_WAITING)
                if isinstance(problem, asyncio.CancelledError):
                    raise

    async def tell(self, target: str, start: float, end: float, step: float) -> TargetHistory | None:
        """One target's past from ``start`` to ``end``; None for a target of which nothing is known."""
        window = max(step, self._service.headline)
        begin = start - window
        async with self._turns:
            self._collect()
            kept = await self._load(target, begin, end, step)
            fresh = [stretch for name, stretch in self._waiting if name == target and begin < stretch.at <= end]
        if kept is None and not fresh and target not in self._service.watches:
            return None
        # By time: after a restart with another clock, what is fresh may be of before what is kept.
        past = sorted([*(kept or ()), *fresh], key=lambda stretch: stretch.at)
        points = await asyncio.to_thread(tell_points, past, start, step, window)
        kept_until = kept[-1].at if kept and self._database.outlives else None
        return TargetHistory(target, start, end, step, window, kept_until, points)

    async def _load(self, target: str, start: float, end: float, step: float) -> list[Stretch] | None:
        try:
            return await self._database.read(partial(stored.load, target=target, start=start, end=end, step=step))
        except StoreError:
            return None

    async def _collect_all(self) -> None:
        self._collect()

    def _collect(self) -> None:
        for name, watch in self._service.watches.items():
            while watch.stretches:
                self._waiting.append((name, watch.stretches.popleft()))


def tell_points(stretches: Sequence[Stretch], start: float, step: float, window: float) -> list[HistoryPoint]:
    """A point for every step after ``start`` that something is known of, and an empty one where a gap begins."""
    ends = [stretch.at for stretch in stretches]
    sums = _Sums([stretch.did for stretch in stretches])
    points: list[HistoryPoint] = []
    for i, stretch in enumerate(stretches):
        if i > 0 and stretch.at - stretch.did.seconds - ends[i - 1] > step and ends[i - 1] > start:
            points.append(HistoryPoint(at=stretch.at - stretch.did.seconds, seconds=0.0))
        is_last = i + 1 == len(stretches) or stretch.at // step != ends[i + 1] // step
        if is_last and stretch.at > start:
            did = sums.between(bisect_right(ends, stretch.at - window), i + 1)
            points.append(_point(stretch, did, most_seconds=LONGEST_STRETCH * window))
    return points


def _point(stretch: Stretch, did: Increments, most_seconds: float) -> HistoryPoint:
    speaks = 0 < did.seconds <= most_seconds
    return HistoryPoint(
        at=stretch.at,
        seconds=did.seconds,
        **{name: formula.over([did]) for name, formula in FORMULAS.items() if speaks},
        speedup=stretch.speedup,
        speedup_kind=stretch.speedup_kind,
        drift_score=stretch.drift_score,
    )


class _Sums:
    """Increments of any run of stretches, as differences of running totals."""

    def __init__(self, steps: Sequence[Increments]) -> None:
        self._seconds = [0.0, *accumulate(step.seconds for step in steps)]
        self._totals = {c: [0.0, *accumulate(step.counts.get(c, 0.0) for step in steps)] for c in Counter}
        self._known = {c: [0, *accumulate(c in step.counts for step in steps)] for c in Counter}

    def between(self, first: int, last: int) -> Increments:
        """Of the stretches from ``first`` up to but not including ``last``; counters that all of them have."""
        return Increments(self._seconds[last] - self._seconds[first], dict(self._counts(first, last)))

    def _counts(self, first: int, last: int) -> Iterator[tuple[Counter, float]]:
        for counter, known in self._known.items():
            if known[last] - known[first] == last - first:
                totals = self._totals[counter]
                yield counter, totals[last] - totals[first]
