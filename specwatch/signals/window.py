"""From cumulative counters to increments over a window, through restarts, holes and layout changes.

A ``Ledger`` keeps, for one engine, running totals that never fall back. The increments over any window are the
difference of two points, so the cost does not depend on the window's length. Points thin out with age: the edge of a
window of six hours needs no precision of seconds. ``Ledgers`` holds those of all engines of a server.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from specwatch.signals.dispersion import Dispersion, Spread
from specwatch.vllm.metrics import Counter, EngineSnapshot

LONGEST_STRETCH = 2.0
"""A window in which scrapes are missing reaches back to the last point before it. Where that makes it more than this
many times longer than asked for, it would speak of another time: then it begins when there were scrapes again."""

JUMP_BACK = 0.5
"""A counter that falls but keeps more than this share of its value was corrected, not restarted: to get back
that far, a restarted server would have had to repeat half its life within one scrape interval."""


COARSENESS = 0.05
"""Longest gap between two points as a share of their age. A window so begins at most 5 % early, and says its true
seconds. Scraped every 5 s, six hours are kept in about 150 points: 45 kB an engine, where every scrape would be 1.3 MB.
"""

MOST_GONE = 64
"""Engines that left and are remembered until their last window is over: a deployment scales by a few at a time, and a
hostile page may name others every time."""

SWEEP = 16
"""Scrapes between two thinnings: all points are looked at then, which costs microseconds, but not for every scrape."""


@dataclass(frozen=True)
class Increments:
    """What happened in one engine over a stretch of time; counts are real, not extrapolated."""

    seconds: float
    counts: Mapping[Counter, float] = field(default_factory=dict)
    """Absent: the server does not export it."""
    accepted_per_position: tuple[float, ...] = ()
    spread: Spread | None = None
    """How much the engine's ratios spread, where enough was seen to know."""

    def get(self, counter: Counter) -> float | None:
        """The increment of one counter, or None where the server does not export it."""
        return self.counts.get(counter)


class Ledger:
    """One engine's counters over time.

    ``keep_seconds`` bounds what is remembered. Times are seconds on any clock; a page that is not newer than the last
    is ignored.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep = keep_seconds
        self._times: list[float] = []
        self._totals: list[array[float]] = []
        self._since_sweep = 0
        self._layout: tuple[Counter | int, ...] = ()
        self._counters: tuple[Counter, ...] = ()
        self._integrals: tuple[Counter, ...] = ()
        self._raw: tuple[float, ...] = ()
        self._process_start: float | None = None
        self._dispersion = Dispersion((), 0)
        self._spread: Spread | None = None
        self.restarts = 0

    @property
    def last(self) -> float:
        """Time of the last page; minus infinity before the first."""
        return self._times[-1] if self._times else -math.inf

    def observe(self, at: float, engine: EngineSnapshot, process_start: float | None = None) -> Increments | None:
        """Take in one scrape; returns the increments since the one before, or None where there are none to tell.

        A page that is not newer than the last is ignored. A page of zeros after real counts is ignored too: a
        dying engine serves one, and differences against the next real page hold either way.
        """
        if self._times and at <= self._times[-1]:
            return None
        layout, raw = _flatten(engine)
        integrals = tuple([counter for counter in _COUNTERS if counter in engine.gauges])
        if self._times and any(self._raw) and not any(raw):
            return None
        if not self._times or (layout, integrals) != (self._layout, self._integrals):
            self._begin(at, layout, integrals)
        else:
            self._extend(at, engine, raw, restarted=self._has_restarted(raw, process_start))
        self._raw, self._process_start = raw, process_start
        if len(self._times) < 2:
            return None
        step = self._between(-2, -1)
        self._dispersion.observe(step.seconds, step.counts, step.accepted_per_position)
        self._spread = self._dispersion.reading()
        return step

    def over(self, seconds: float, now: float) -> Increments | None:
        """Increments over the last ``seconds`` before ``now``, or over what is known of them.

        None with fewer than two points, or with no point inside the window. Where missing scrapes would stretch the
        window beyond LONGEST_STRETCH, it begins with the first point inside.
        """
        times = self._times
        if len(times) < 2 or times[-1] <= now - seconds:
            return None
        first = max(bisect_right(times, now - seconds) - 1, 0)
        if times[-1] - times[first] > seconds * LONGEST_STRETCH:
            first += 1
        if first >= len(times) - 1:
            return None
        return self._between(first, -1)

    def before(self, moment: float) -> Increments | None:
        """Increments from the oldest point that is known up to ``moment``; None with fewer than two such points."""
        last = bisect_right(self._times, moment) - 1
        return self._between(0, last) if last > 0 else None

    def _begin(self, at: float, layout: tuple[Counter | int, ...], integrals: tuple[Counter, ...]) -> None:
        """Start over: points of another layout (another K, families gone) cannot be subtracted."""
        self._layout, self._integrals = layout, integrals
        self._times = [at]
        self._totals = [array("d", [0.0] * (len(layout) + len(integrals)))]
        self._counters = tuple(key for key in layout if isinstance(key, Counter))
        self._dispersion = Dispersion(self._counters, positions=len(layout) - len(self._counters))
        self._spread = None

    def _extend(self, at: float, engine: EngineSnapshot, raw: tuple[float, ...], restarted: bool) -> None:
        elapsed = at - self._times[-1]
        if restarted:
            self.restarts += 1
            steps: Sequence[float] = raw
        elif any(new < old for new, old in zip(raw, self._raw, strict=True)):
            steps = (0.0,) * len(raw)
        else:
            steps = [new - old for new, old in zip(raw, self._raw, strict=True)]
        areas = [engine.gauges[counter] * elapsed for counter in self._integrals]
        totals = array("d", map(sum, zip(self._totals[-1], [*steps, *areas], strict=True)))
        self._times.append(at)
        self._totals.append(totals)
        self._since_sweep += 1
        if self._since_sweep >= SWEEP:
            self._since_sweep = 0
            self._thin(at)

    def _thin(self, now: float) -> None:
        """Forget what is too old, and points that no window needs as its edge."""
        times = self._times
        first = max(bisect_right(times, now - self._keep) - 1, 0)
        kept = [first]
        for i in range(first + 1, len(times) - 1):
            # Without this point the next one would follow the last kept one.
            if times[i + 1] - times[kept[-1]] > COARSENESS * (now - times[i + 1]):
                kept.append(i)
        kept.append(len(times) - 1)
        self._times = [times[i] for i in kept]
        self._totals = [self._totals[i] for i in kept]

    def _has_restarted(self, raw: tuple[float, ...], process_start: float | None) -> bool:
        if None not in (process_start, self._process_start) and process_start != self._process_start:
            return True
        return any(new < old * JUMP_BACK for new, old in zip(raw, self._raw, strict=True))

    def _between(self, first: int, last: int) -> Increments:
        steps = [b - a for a, b in zip(self._totals[first], self._totals[last], strict=True)]
        counters, positions = len(self._counters), len(self._layout)
        counts = dict(zip(self._counters, steps, strict=False))
        counts.update(zip(self._integrals, steps[positions:], strict=True))
        return Increments(
            seconds=self._times[last] - self._times[first],
            counts=counts,
            accepted_per_position=tuple(steps[counters:positions]),
            spread=self._spread,
        )


class Ledgers:
    """Those of all engines of one server. An engine that left keeps its part in the windows that saw it."""

    def __init__(self, keep_seconds: float) -> None:
        self._keep = keep_seconds
        self._ledgers: dict[str, Ledger] = {}
        self._present: set[str] = set()
        self._restarts = 0

    @property
    def engines(self) -> int:
        """Engines on the last page."""
        return len(self._present)

    @property
    def restarts(self) -> int:
        """Restarts seen: a server restarts its engines together, so the most that one of them saw."""
        return max([self._restarts, *(ledger.restarts for ledger in self._ledgers.values())])

    def observe(
        self, at: float, engines: Mapping[str, EngineSnapshot], process_start: float | None = None
    ) -> list[Increments]:
        """Take in one scrape; returns each engine's increments since the one before, where there are any."""
        self._forget(at)
        self._present = set(engines)
        for name in engines:
            self._ledgers.setdefault(name, Ledger(self._keep))
        steps = [self._ledgers[name].observe(at, engine, process_start) for name, engine in engines.items()]
        return [step for step in steps if step]

    def over(self, seconds: float, now: float) -> list[Increments]:
        """Each engine's increments over the last ``seconds`` before ``now``; those without any are left out."""
        parts = ((name, ledger.over(seconds, now)) for name, ledger in self._ledgers.items())
        return [self._until(now, name, part) for name, part in parts if part]

    def before(self, moment: float) -> list[Increments]:
        """Each engine's increments that are known up to a past ``moment``; those without any are left out."""
        return [part for ledger in self._ledgers.values() if (part := ledger.before(moment))]

    def _until(self, now: float, name: str, part: Increments) -> Increments:
        """An engine that left did nothing since: its rates are over all the time that it is spoken of."""
        if name in self._present:
            return part
        return replace(part, seconds=part.seconds + max(0.0, now - self._ledgers[name].last))

    def _forget(self, at: float) -> None:
        """Let go of engines that left before any window that is still asked for, and of more than are worth keeping."""
        self._restarts = self.restarts
        gone = sorted(
            ((ledger.last, name) for name, ledger in self._ledgers.items() if name not in self._present),
            reverse=True,
        )
        for number, (last, name) in enumerate(gone):
            if number >= MOST_GONE or last <= at - self._keep:
                del self._ledgers[name]


_COUNTERS = tuple(Counter)


def _flatten(engine: EngineSnapshot) -> tuple[tuple[Counter | int, ...], tuple[float, ...]]:
    """Keys and values of an engine's cumulative series, positions as integers, in a fixed order."""
    counters = [counter for counter in _COUNTERS if counter in engine.counters]
    layout = (*counters, *range(len(engine.accepted_per_position)))
    return layout, (*[engine.counters[counter] for counter in counters], *engine.accepted_per_position)


def add_up(parts: Iterable[Increments]) -> Increments:
    """Pool increments of several engines: counts added, the longest stretch of time kept.

    A counter is kept only where every part has it, so that no ratio mixes servers; use
    ``formula.Ratio.over`` to pool servers of different dialects.
    """
    members = list(parts)
    if not members:
        return Increments(seconds=0.0)
    if len(members) == 1:
        return replace(members[0], spread=None)
    shared = set.intersection(*(set(member.counts) for member in members))
    positions = max(len(member.accepted_per_position) for member in members)
    return Increments(
        seconds=max(member.seconds for member in members),
        counts={
            counter: sum([member.counts[counter] for member in members]) for counter in Counter if counter in shared
        },
        accepted_per_position=tuple(
            sum(m.accepted_per_position[i] for m in members if i < len(m.accepted_per_position))
            for i in range(positions)
        ),
    )
