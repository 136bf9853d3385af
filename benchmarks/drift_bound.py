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
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift_traces import DAY, Kind, Numbers, requests

BETWEEN_FALSE_ALARMS = 30 * DAY
"""T: one false alarm in thirty days, in intervals."""

TOKENS = 45e6
"""Of the simulated requests from which the law of one is taken: 300,000 of the usual ones."""

BINS = (512, 1024)
"""Of drafts and of accepted tokens. Coarser by half changes the divergence by 3 % at 6 requests an interval."""

NOTHING = 1e-13
"""Probability below which a Fourier transform in double precision has only noise."""


def information(before: Kind, after: Kind, per_interval: float) -> float:
    """Nats that one interval with so many requests tells of the change, given its drafts."""
    span = _span(after, per_interval)
    first, second = _law(before, per_interval, span), _law(after, per_interval, span)
    held = (second > NOTHING) & (first > NOTHING)
    joint = float(np.sum(second[held] * np.log(second[held] / first[held])))
    drafts_first, drafts_second = first.sum(axis=1), second.sum(axis=1)
    held_drafts = (drafts_first > NOTHING) & (drafts_second > NOTHING)
    ratio = drafts_second[held_drafts] / drafts_first[held_drafts]
    return joint - float(np.sum(drafts_second[held_drafts] * np.log(ratio)))


def bound(before: Kind, after: Kind, per_interval: float) -> float:
    """Lorden's bound on the mean delay in intervals; never below the one interval that it takes to see anything."""
    return max(1.0, math.log(BETWEEN_FALSE_ALARMS) / information(before, after, per_interval))


@lru_cache(maxsize=16)
def _requests(kind: Kind) -> tuple[Numbers, Numbers]:
    return requests(np.random.default_rng(4), kind, round(TOKENS / kind.output_tokens))


def _span(kind: Kind, per_interval: float) -> tuple[float, float]:
    """Drafts and accepted tokens that the grid has to reach: mean, seven deviations, one request."""
    drafts, accepted = requests(np.random.default_rng(3), kind, 20_000)
    far = [
        per_interval * float(values.mean())
        + 7 * math.sqrt(per_interval * float(np.mean(values**2)))
        + float(values.max())
        for values in (drafts, accepted)
    ]
    return float(far[0]), float(max(far[1], far[0]))


def _law(kind: Kind, per_interval: float, span: tuple[float, float]) -> NDArray[np.float64]:
    """Probabilities of an interval's drafts and accepted tokens, in BINS up to ``span``."""
    counted = _requests(kind)
    # Rounded to bins at random, so that the mean of a sum stays what it was.
    spread = np.random.default_rng(5).random((2, len(counted[0])))
    places = [
        np.minimum((values / most * bins + noise).astype(np.int64), bins - 1)
        for values, most, bins, noise in zip(counted, span, BINS, spread, strict=True)
    ]
    one = np.bincount(places[0] * BINS[1] + places[1], minlength=BINS[0] * BINS[1]).reshape(BINS) / len(counted[0])
    characteristic = np.exp(per_interval * (np.fft.rfft2(one) - 1))
    return np.asarray(np.fft.irfft2(characteristic, BINS), dtype=np.float64)
