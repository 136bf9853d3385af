"""How fast any detector can be: Lorden's bound, from the process that makes the traces.

Lorden (1971): no detector whose false alarms are T intervals apart on average finds a change, from its worst moment,
in less than about ln(T) / I intervals, where I is what one interval tells: the Kullback-Leibler divergence of an
interval's law after the change from that before it. Here an interval is a compound Poisson sum of requests, so its law
of drafts and accepted tokens follows from one request's: exp(λ·(φ - 1)) for the characteristic functions. One request's
law is taken from simulated ones, the sum by a Fourier transform on a grid.

The divergence is that of accepted tokens *given* the drafts: load is not what detectors are after, it changes all day.
Requests that span two intervals are counted where they began, which favours the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_traces import DAY, TOKENS, Kind, Numbers, requests

BETWEEN_FALSE_ALARMS = 30 * DAY
"""T: one false alarm in thirty days, in intervals."""

FINENESS = 12
"""Bins of the grid in a mean request's drafts, and twice as many in accepted tokens; half as many change the divergence
by 6 % at 6 requests an interval."""

NOTHING = 1e-13
"""Probability below which a Fourier transform in double precision has only noise."""


def information(before: Kind, after: Kind, per_interval: float) -> float:
    """Nats that one interval with so many requests tells of the change, given its drafts.

    Laws counted from requests that were drawn tell too much, by the number of filled cells over that of the requests.
    Twice the divergence from all of them, less that from half of them, is without that error, to first order.
    """
    return 2 * _divergence(before, after, per_interval, every=1) - _divergence(before, after, per_interval, every=2)


def _divergence(before: Kind, after: Kind, per_interval: float, every: int) -> float:
    """The same by counting ``every`` so-many-th request."""
    grid = _grid(after, per_interval)
    first, second = _law(before, per_interval, grid, every), _law(after, per_interval, grid, every)
    held = (second > NOTHING) & (first > NOTHING)
    joint = float(np.sum(second[held] * np.log(second[held] / first[held])))
    drafts_first, drafts_second = first.sum(axis=1), second.sum(axis=1)
    held_drafts = (drafts_first > NOTHING) & (drafts_second > NOTHING)
    ratio = drafts_second[held_drafts] / drafts_first[held_drafts]
    return joint - float(np.sum(drafts_second[held_drafts] * np.log(ratio)))


def bound(before: Kind, after: Kind, per_interval: float) -> float:
    """Lorden's bound on the mean delay in intervals; never below the one interval that it takes to see anything."""
    return max(1.0, math.log(BETWEEN_FALSE_ALARMS) / information(before, after, per_interval))


def bound_after_learning(known: float, learned: float) -> float:
    """``bound``, which is ``known``, for a reference from so many like intervals; infinite where these are too few."""
    return known * learned / (learned - known) if learned > known else math.inf


@lru_cache(maxsize=16)
def _requests(kind: Kind) -> tuple[Numbers, Numbers]:
    return requests(np.random.default_rng(4), kind, round(TOKENS / kind.output_tokens))


@dataclass(frozen=True)
class _Grid:
    """Bins of drafts and of accepted tokens, and what they reach to."""

    bins: tuple[int, int]
    span: tuple[float, float]


def _grid(kind: Kind, per_interval: float) -> _Grid:
    """A grid that reaches to the mean, seven deviations and one request."""
    drafts, accepted = requests(np.random.default_rng(3), kind, 20_000)
    far = [
        per_interval * float(values.mean())
        + 7 * math.sqrt(per_interval * float(np.mean(values**2)))
        + float(values.max())
        for values in (drafts, accepted)
    ]
    # A power of two, for the Fourier transform.
    bins = 2 ** math.ceil(math.log2(FINENESS * far[0] / float(drafts.mean())))
    return _Grid((bins, 2 * bins), (float(far[0]), float(max(far[1], far[0]))))


def _law(kind: Kind, per_interval: float, grid: _Grid, every: int) -> NDArray[np.float64]:
    """Probabilities of an interval's drafts and accepted tokens on the grid."""
    counted = [values[::every] for values in _requests(kind)]
    # Rounded to bins at random, so that the mean of a sum stays what it was.
    spread = np.random.default_rng(5).random((2, len(counted[0])))
    places = [
        np.minimum((values / most * bins + noise).astype(np.int64), bins - 1)
        for values, most, bins, noise in zip(counted, grid.span, grid.bins, spread, strict=True)
    ]
    cells = np.bincount(places[0] * grid.bins[1] + places[1], minlength=grid.bins[0] * grid.bins[1])
    characteristic = np.exp(per_interval * (np.fft.rfft2(cells.reshape(grid.bins) / len(counted[0])) - 1))
    return np.asarray(np.fft.irfft2(characteristic, grid.bins), dtype=np.float64)
