"""A signal's formula, written once: evaluated on increments here, turned into PromQL by ``generate``.

Every signal is a quotient of sums of counters. Numerators and denominators are pooled over engines before
dividing; ratios are never averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

Terms = Mapping[Counter, float]
"""Counters and their weights: ``{DRAFTS: 1, ACCEPTED_TOKENS: 1}`` is drafts + accepted tokens."""


@dataclass(frozen=True)
class Ratio:
    """``offset + Σ numerator ÷ Σ denominator``, pooled over engines.

    Without a denominator the quotient is per second of observed time (a rate). ``at_least`` names counters
    whose pooled increment must reach a minimum: below it there is no value, for chance would decide it.
    """

    in_promql: ClassVar[bool] = True
    """Whether ``generate`` can write it for Prometheus."""

    numerator: Terms
    denominator: Terms = field(default_factory=dict)
    offset: float = 0.0
    at_least: Terms = field(default_factory=dict)
    is_share: bool = False
    """Whether it is a part of a whole. Where it is not from 0 to 1, counters contradict each other: no value."""

    @property
    def is_rate(self) -> bool:
        """Whether the quotient is per second."""
        return not self.denominator

    @cached_property
    def _needed(self) -> frozenset[Counter]:
        return frozenset([*self.numerator, *self.denominator, *self.at_least])

    def over(self, engines: Sequence[Increments]) -> float | None:
        """The value over these engines, or None without enough to say.

        Engines that do not export one of the counters are left out of both sums. What is no finite number (counters
        of a hostile page may hold anything) has no value either.
        """
        value = self._quotient(engines)
        if value is None or not math.isfinite(value) or (self.is_share and not 0.0 <= value <= 1.0):
            return None
        return value

    def _quotient(self, engines: Sequence[Increments]) -> float | None:
        needed = self._needed
        members = [engine for engine in engines if needed <= engine.counts.keys()]
        for counter, least in self.at_least.items():
            if sum([member.counts[counter] for member in members]) < least:
                return None
        if self.is_rate:
            rates = [_pooled(self.numerator, [m]) / m.seconds for m in members if m.seconds > 0]
            return self.offset + sum(rates) if rates else None
        below = _pooled(self.denominator, members)
        return self.offset + _pooled(self.numerator, members) / below if below > 0 else None


@dataclass(frozen=True)
class PerPosition:
    """Share of drafts whose token at a position was accepted, for every position.

    Position i divides by the drafts of the engines that have a position i: engines of another K do not dilute it.
    ``conditional`` divides each by the one before: the share among drafts whose tokens before it were accepted.
    """

    at_least: float
    """Drafts, below which a position has no value."""
    conditional: bool = False

    @property
    def in_promql(self) -> bool:
        """Whether ``generate`` can write it for Prometheus: PromQL finds no label's predecessor."""
        return not self.conditional

    def over(self, engines: Sequence[Increments]) -> tuple[float | None, ...]:
        """One rate a position, position 0 first."""
        members = [engine for engine in engines if Counter.DRAFTS in engine.counts]
        longest = max((len(m.accepted_per_position) for m in members), default=0)
        rates = tuple(self._at(position, members) for position in range(longest))
        return conditional_rates(rates) if self.conditional else rates

    def _at(self, position: int, engines: Sequence[Increments]) -> float | None:
        members = [m for m in engines if position < len(m.accepted_per_position)]
        drafts = sum([m.counts[Counter.DRAFTS] for m in members])
        if drafts < max(self.at_least, 1.0):
            return None
        rate = sum([m.accepted_per_position[position] for m in members]) / drafts
        # Outside, counters contradict each other.
        return rate if 0.0 <= rate <= 1.0 else None


@dataclass(frozen=True)
class Computed:
    """A value that takes more than sums of counters: Python alone tells it, and the sidecar exports it."""

    in_promql: ClassVar[bool] = False

    compute: Callable[[Sequence[Increments]], float | None]
    words: str
    """The formula, for people."""

    def over(self, engines: Sequence[Increments]) -> float | None:
        """The value over these engines, or None without enough to say."""
        value = self.compute(engines)
        return value if value is not None and math.isfinite(value) else None


Formula = Ratio | PerPosition | Computed


def conditional_rates(per_position: Sequence[float | None]) -> tuple[float | None, ...]:
    """P(accepted at i | accepted at i - 1) from unconditional rates; the first equals its own rate.

    A change of domain moves these first: the unconditional rates fall with position anyway.
    """
    before: float | None = 1.0
    result: list[float | None] = []
    for rate in per_position:
        result.append(rate / before if rate is not None and before else None)
        before = rate
    return tuple(result)


def _pooled(terms: Terms, engines: Sequence[Increments]) -> float:
    total = 0.0
    for engine in engines:
        counts = engine.counts
        for counter, weight in terms.items():
            total += weight * counts[counter]
    return total
