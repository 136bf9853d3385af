"""From cumulative counters to increments over a window, through restarts, holes and layout changes.

A ``Ledger`` keeps, for one engine, running totals that never fall back, one point a scrape. The increments
over any window are the difference of two points, so the cost does not depend on the window's length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from specwatch.vllm.metrics import Counter, EngineSnapshot

LONGEST_STRETCH = 2.0
"""A window in which scrapes are missing reaches back to the last point before it. Where that makes it more
than this many times longer than asked for, it would speak of another time: there is no value then."""

JUMP_BACK = 0.5
"""A counter that falls but keeps more than this share of its value was corrected, not restarted: to get back
that far, a restarted server would have had to repeat half its life within one scrape interval."""


@dataclass(frozen=True)
class Increments:
    """What happened in one engine over a stretch of time; counts are real, not extrapolated."""

    seconds: float
    counts: Mapping[Counter, float] = field(default_factory=dict)
    """Absent: the server does not export it."""
    accepted_per_position: tuple[float, ...] = ()

    def get(self, counter: Counter) -> float | None:
        """The increment of one counter, or None where the server does not export it."""
        return self.counts.get(counter)


@dataclass(frozen=True)
class _Point:
    at: float
    totals: tuple[float, ...]


class Ledger:
    """One engine's counters over time.

    ``keep_seconds`` bounds what is remembered. Times are seconds on any clock that does not run backwards.
    """

    def __init__(self, keep_seconds: float) -> None:
        self._keep = keep_seconds
        self._points: deque[_Point] = deque()
        self._times: deque[float] = deque()
        self._layout: tuple[Counter | int, ...] = ()
        self._integrals: tuple[Counter, ...] = ()
        self._raw: tuple[float, ...] = ()
        self._process_start: float | None = None
        self.restarts = 0

    def observe(self, at: float, engine: EngineSnapshot, process_start: float | None = None) -> Increments | None:
        """Take in one scrape; returns the increments since the one before, or None where there are none to tell.

        A page that is not newer than the last is ignored. A page of zeros after real counts is ignored too: a
        dying engine serves one, and differences against the next real page hold either way.
        """
        if self._points and at <= self._points[-1].at:
            return None
        layout, raw = _flatten(engine)
        integrals = tuple(counter for counter in Counter if counter in engine.gauges)
        if self._points and any(self._raw) and not any(raw):
            return None
        if not self._points or (layout, integrals) != (self._layout, self._integrals):
            self._begin(at, layout, integrals)
        else:
            self._extend(at, engine, raw, restarted=self._has_restarted(raw, process_start))
        self._raw, self._process_start = raw, process_start
        if len(self._points) < 2:
            return None
        return self._between(self._points[-2], self._points[-1], longest=float("inf"))

    def over(self, seconds: float, now: float) -> Increments | None:
        """Increments over the last ``seconds`` before ``now``, or over what is known of them.

        None with fewer than two points, with no point inside the window, or when missing scrapes would stretch
        the window beyond LONGEST_STRETCH.
        """
        times = self._times
        if len(times) < 2 or times[-1] <= now - seconds:
            return None
        first = max(bisect_right(times, now - seconds) - 1, 0)
        if first == len(times) - 1:
            return None
        return self._between(self._points[first], self._points[-1], longest=seconds * LONGEST_STRETCH)

    def _begin(self, at: float, layout: tuple[Counter | int, ...], integrals: tuple[Counter, ...]) -> None:
        """Start over: points of another layout (another K, families gone) cannot be subtracted."""
        self._layout, self._integrals = layout, integrals
        self._points = deque([_Point(at, (0.0,) * (len(layout) + len(integrals)))])
        self._times = deque([at])

    def _extend(self, at: float, engine: EngineSnapshot, raw: tuple[float, ...], restarted: bool) -> None:
        last = self._points[-1]
        elapsed = at - last.at
        if restarted:
            self.restarts += 1
            steps: Sequence[float] = raw
        elif any(new < old for new, old in zip(raw, self._raw, strict=True)):
            steps = (0.0,) * len(raw)
        else:
            steps = [new - old for new, old in zip(raw, self._raw, strict=True)]
        areas = [engine.gauges[counter] * elapsed for counter in self._integrals]
        totals = tuple(total + step for total, step in zip(last.totals, [*steps, *areas], strict=True))
        self._points.append(_Point(at, totals))
        self._times.append(at)
        while len(self._points) > 2 and self._times[1] <= at - self._keep:
            self._points.popleft()
            self._times.popleft()

    def _has_restarted(self, raw: tuple[float, ...], process_start: float | None) -> bool:
        if None not in (process_start, self._process_start) and process_start != self._process_start:
            return True
        return any(new < old * JUMP_BACK for new, old in zip(raw, self._raw, strict=True))

    def _between(self, first: _Point, last: _Point, longest: float) -> Increments | None:
        seconds = last.at - first.at
        if seconds > longest:
            return None
        steps = [b - a for a, b in zip(first.totals, last.totals, strict=True)]
        named = dict(zip([*self._layout, *self._integrals], steps, strict=True))
        return Increments(
            seconds=seconds,
            counts={key: step for key, step in named.items() if isinstance(key, Counter)},
            accepted_per_position=tuple(named[key] for key in self._layout if not isinstance(key, Counter)),
        )


def _flatten(engine: EngineSnapshot) -> tuple[tuple[Counter | int, ...], tuple[float, ...]]:
    """Keys and values of an engine's cumulative series, positions as integers, in a fixed order."""
    counters = [counter for counter in Counter if counter in engine.counters]
    layout = (*counters, *range(len(engine.accepted_per_position)))
    return layout, (*(engine.counters[counter] for counter in counters), *engine.accepted_per_position)


def add_up(parts: Iterable[Increments]) -> Increments:
    """Pool increments of several engines: counts added, the longest stretch of time kept.

    A counter is kept only where every part has it, so that no ratio mixes servers; use
    ``formula.Ratio.over`` to pool servers of different dialects.
    """
    members = list(parts)
    if not members:
        return Increments(seconds=0.0)
    shared = set.intersection(*(set(member.counts) for member in members))
    positions = max(len(member.accepted_per_position) for member in members)
    return Increments(
        seconds=max(member.seconds for member in members),
        counts={counter: sum(member.counts[counter] for member in members) for counter in Counter if counter in shared},
        accepted_per_position=tuple(
            sum(m.accepted_per_position[i] for m in members if i < len(m.accepted_per_position))
            for i in range(positions)
        ),
    )
