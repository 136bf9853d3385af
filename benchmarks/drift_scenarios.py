"""What the benchmark's servers live through: healthy months, and hours in which acceptance changes."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.drift_traces import DAY, Counts, Kind, Numbers, counts, rate, steady_counts, with_rate

HOUR = 240
"""Intervals of an hour: what the reference has learned when the change comes."""

USUAL = Kind()
"""Six requests of 40 drafts an interval are the reference's simulation; rate 0.53 at K = 5."""

RECORDED = Path(__file__).parent / "traces" / "lab-json-to-es.json"


@dataclass(frozen=True)
class Traffic:
    """What a healthy server is asked for; detectors are tuned on it, and judged where it changes."""

    requests: float = 6.0
    """Per interval, or at the busiest hour where ``diurnal``."""
    kind: Kind = USUAL
    diurnal: bool = False

    @property
    def name(self) -> str:
        """As in the table."""
        load = f"{self.requests:g} requests" + (", diurnal" if self.diurnal else "")
        return load + (", long answers" if self.kind.output_tokens > USUAL.output_tokens else "")


LONG = replace(USUAL, output_tokens=1500.0, max_tokens=4000)
"""Answers of 1500 tokens take 12 s, so that most span intervals, and neighbours are alike."""

TWO, SIX, TWENTY, LONG_TWO = Traffic(2.0), Traffic(), Traffic(20.0), Traffic(2.0, LONG)
DIURNAL = Traffic(8.0, diurnal=True)

LATEST = 60
"""Intervals within which a change begins once the reference has learned."""


@dataclass(frozen=True)
class Step:
    """Acceptance falls by ``points`` of the rate within ``over`` intervals, after ``learned`` of them."""

    points: float
    traffic: Traffic = SIX
    over: int = 0
    learned: int = HOUR
    trials: int = 60
    longest: int = 1200
    """Intervals after which nobody waits any longer."""

    @property
    def name(self) -> str:
        """As in the table."""
        learned = "" if self.learned == HOUR or self.traffic.diurnal else f", {self.learned / HOUR:g} h learned"
        how = f" over {self.over / HOUR:g} h" if self.over else ""
        return f"{self.points * 100:g} points{how}, {self.traffic.name}{learned}"

    @property
    def usual(self) -> bool:
        """Whether it is a sudden step at the usual load."""
        return self.traffic == SIX and not self.over

    @property
    def known(self) -> float:
        """Intervals that the reference was learned from, in the mean over the trials."""
        return self.learned + LATEST / 2

    def after(self) -> Kind:
        """The traffic that it becomes."""
        return _fallen(self.traffic.kind, self.points)


STEPS = (
    *(Step(points, trials=120) for points in (0.03, 0.05, 0.10, 0.20)),
    *(Step(points, TWO, trials=120, longest=2400) for points in (0.05, 0.10, 0.20)),
    Step(0.05, TWO, learned=DAY, trials=60, longest=2400),
    *(Step(points, TWENTY) for points in (0.03, 0.05, 0.10)),
    # A delay of two or three intervals takes many trials to tell from one and a half bounds.
    Step(0.20, TWENTY, trials=300, longest=240),
    Step(0.10, DIURNAL, learned=DAY, trials=200, longest=4000),
    Step(0.10, LONG_TWO, trials=60),
    Step(0.10, over=HOUR, trials=60),
    Step(0.10, over=6 * HOUR, trials=40, longest=2400),
    Step(0.10, over=5 * 24 * HOUR, trials=40, longest=5 * DAY),
)


@lru_cache(maxsize=64)
def _fallen(kind: Kind, points: float) -> Kind:
    return with_rate(kind, rate(kind) - points)


def load_of_day(busiest: float, intervals: int, begin: int = 0) -> Numbers:
    """Requests an interval through the day: busiest at noon, one in a hundred of it through the quiet night."""
    hour = (np.arange(begin, begin + intervals) % DAY) / DAY * 2 * np.pi
    share: Numbers = np.maximum(0.01, ((1 - np.cos(hour)) / 2) ** 2)
    return busiest * share


def trial(step: Step, seed: int) -> tuple[Counts, int]:
    """One server's counts, and the interval at which the change begins."""
    source, traffic = np.random.default_rng([2, seed]), step.traffic
    change = step.learned + int(source.integers(0, DAY if traffic.diurnal else LATEST))
    total = change + step.longest
    load = load_of_day(traffic.requests, total) if traffic.diurnal else np.full(total, traffic.requests)
    share = np.clip((np.arange(total) - change + 1) / max(step.over, 1), 0.0, 1.0)
    alpha = traffic.kind.alpha + share * (step.after().alpha - traffic.kind.alpha)
    return counts(source, traffic.kind, load, alpha), change


def healthy(seed: int, days: int = 30, traffic: Traffic = DIURNAL) -> Counts:
    """A month of a healthy server.

    Where it is diurnal: 4 to 20 requests an interval at noon, quiet nights, a redeployment with K = 3 and back, four
    restarts.
    """
    source = np.random.default_rng([1, seed])
    if not traffic.diurnal:
        return steady_counts(source, traffic.kind, np.full(days * DAY, traffic.requests))
    load = load_of_day(float(source.uniform(4, 20)), days * DAY)
    for begin in source.integers(0, days * DAY, 4):
        load[begin : begin + 12] = 0.0  # three minutes without answers
    parts = zip((5, 3, 5), np.array_split(load, 3), strict=True)
    first, second, third = (steady_counts(source, replace(traffic.kind, k=k), part) for k, part in parts)
    return first + second + third


def recorded() -> tuple[list[str], Counts]:
    """Domain and counts of every interval of the trace that a real vLLM server left (``drift_record``)."""
    rows = json.loads(RECORDED.read_text())["rows"]
    drafts, tokens, accepted = (np.array([row[column] for row in rows], dtype=float) for column in (2, 3, 4))
    return [row[0] for row in rows], Counts(drafts, accepted, (tokens / drafts).astype(np.int64))
