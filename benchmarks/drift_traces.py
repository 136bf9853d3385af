"""Traffic as a detector sees it: drafts, draft tokens and accepted tokens of every interval, request by request.

Requests arrive as a Poisson process, each with an acceptance of its own (the lab's ``Domain`` law), and take one step
after another until they have their tokens, whichever intervals that touches. Everything is counted as vLLM counts it,
and as ``specwatch.lab.simulated_engine`` does, which ``tests/benchmarks/test_drift.py`` holds this to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

INTERVAL = 15.0
"""Seconds of an interval: three scrapes."""

DAY = 5760
"""Intervals of a day."""

TOKENS = 45e6
"""Of the simulated requests that stand for all of a kind: 300,000 of the usual ones."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A kind of traffic: what ``Domain`` says of it, and how long a step takes."""

    alpha: float = 0.8
    """Mean conditional acceptance."""
    concentration: float = 20.0
    """a + b of the beta law that each request's own acceptance is drawn from."""
    k: int = 5
    output_tokens: float = 150.0
    max_tokens: int = 400
    step_seconds: float = 0.03
    """A 70 B model on four A100 needs 17 to 40 ms (``specwatch.lab.simulated_engine.StepCost``)."""


@dataclass(frozen=True)
class Counts:
    """One server's counts, one entry an interval."""

    drafts: Numbers
    accepted: Numbers
    k: NDArray[np.int64]
    """Draft tokens a draft: what tells the detectors that a new regime began."""

    @property
    def draft_tokens(self) -> Numbers:
        """Every draft is K long here."""
        return self.drafts * self.k

    def __len__(self) -> int:
        return len(self.drafts)

    def __add__(self, later: Counts) -> Counts:
        return Counts(
            np.concatenate([self.drafts, later.drafts]),
            np.concatenate([self.accepted, later.accepted]),
            np.concatenate([self.k, later.k]),
        )


def requests(source: np.random.Generator, kind: Kind, number: int) -> tuple[Numbers, Numbers]:
    """Drafts and accepted tokens of so many whole requests."""
    drafts, accepted = np.zeros(number), np.zeros(number)

    def count(index: NDArray[np.int64], step: int, taken: Numbers) -> None:
        drafts[index] += 1
        accepted[index] += taken

    _decode(source, kind, np.full(number, kind.alpha), count)
    return drafts, accepted


def counts(source: np.random.Generator, kind: Kind, per_interval: Numbers, alpha: Numbers) -> Counts:
    """Counts of ``len(per_interval)`` intervals, each with that many arriving requests and their mean acceptance.

    Steps that end after the last interval are cut off.
    """
    intervals = len(per_interval)
    arrivals = np.repeat(np.arange(intervals), source.poisson(per_interval))
    start = (arrivals + source.random(len(arrivals))) * INTERVAL
    drafts, accepted = np.zeros(intervals + 1), np.zeros(intervals + 1)

    def count(index: NDArray[np.int64], step: int, taken: Numbers) -> None:
        place = ((start[index] + (step + 0.5) * kind.step_seconds) / INTERVAL).astype(np.int64)
        np.minimum(place, intervals, out=place)
        drafts[:] += np.bincount(place, minlength=intervals + 1)
        accepted[:] += np.bincount(place, taken, minlength=intervals + 1)

    _decode(source, kind, alpha[arrivals], count)
    return Counts(drafts[:-1], accepted[:-1], np.full(intervals, kind.k))


def steady_counts(source: np.random.Generator, kind: Kind, per_interval: Numbers) -> Counts:
    """The same of traffic that stays what it is, quickly: every request is drawn from many that were simulated once."""
    intervals = len(per_interval)
    arrivals = np.repeat(np.arange(intervals), source.poisson(per_interval))
    known = _stock(kind)
    drawn = source.integers(0, known.shape[2], len(arrivals))
    sums = np.zeros((2, intervals + known.shape[1]))
    for later in range(known.shape[1]):
        for column in range(2):
            counted = np.bincount(arrivals, known[column, later, drawn], minlength=intervals)
            sums[column, later : later + intervals] += counted
    return Counts(sums[0, :intervals], sums[1, :intervals], np.full(intervals, kind.k))


@lru_cache(maxsize=8)
def _stock(kind: Kind) -> NDArray[np.float32]:
    """Drafts and accepted tokens (first axis) of many requests (last), by intervals since each one's arrival."""
    source, number = np.random.default_rng(6), round(TOKENS / kind.output_tokens)
    start = source.random(number) * INTERVAL
    longest = math.ceil(kind.max_tokens * kind.step_seconds / INTERVAL) + 1
    known = np.zeros((2, longest, number), dtype=np.float32)

    def count(index: NDArray[np.int64], step: int, taken: Numbers) -> None:
        place = ((start[index] + (step + 0.5) * kind.step_seconds) / INTERVAL).astype(np.int64)
        known[0, place, index] += 1
        known[1, place, index] += taken

    _decode(source, kind, np.full(number, kind.alpha), count)
    return known


def _decode(
    source: np.random.Generator,
    kind: Kind,
    alpha: Numbers,
    count: Callable[[NDArray[np.int64], int, Numbers], None],
) -> None:
    """Take every request through its steps; ``count`` hears who took a step, the how manieth, and what was accepted."""
    own = source.beta(alpha * kind.concentration, (1 - alpha) * kind.concentration)
    # A draft is accepted up to i with probability own^i: an exponential draw, divided by -log(own), rounded down.
    slope = -np.log(np.clip(own, 1e-9, 1 - 1e-9))
    mean, most = kind.output_tokens, kind.max_tokens
    drawn = source.exponential(mean, len(alpha)) if mean < most else np.full(len(alpha), float(most))
    left = np.clip(np.round(drawn), 1, most) - 1.0  # prefill gave the first token
    index = np.flatnonzero(left > 0)
    slope, left = slope[index], left[index]
    step = 0
    while len(index):
        taken = np.minimum(np.floor(source.standard_exponential(len(index)) / slope), kind.k)
        count(index, step, taken)
        left -= 1 + taken
        going = left > 0
        index, slope, left = index[going], slope[going], left[going]
        step += 1


def rate(kind: Kind, tokens: float = 15e6) -> float:
    """The acceptance rate that a long window of this traffic shows: accepted over draft tokens, pooled."""
    drafts, accepted = requests(np.random.default_rng(1), kind, round(tokens / kind.output_tokens))
    return float(accepted.sum() / drafts.sum() / kind.k)


def with_rate(kind: Kind, wanted: float) -> Kind:
    """The same traffic with the mean acceptance that gives an acceptance rate, found by bisection."""
    low, high = 0.01, 0.995
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(replace(kind, alpha=middle), 6e6) < wanted else (low, middle)
    return replace(kind, alpha=(low + high) / 2)
