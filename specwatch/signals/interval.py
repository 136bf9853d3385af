"""Confidence intervals of pooled ratios, from the spread that was measured on the traffic.

Engines are independent, so variances of their parts add. A ratio between two limits is transformed by the logistic
function first: the interval then stays between them, and is as skewed as the ratio's own distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specwatch.signals.dispersion import Quantity, Spread
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

CONFIDENCE = 0.95

NORMAL = 1.959964
"""The 97.5 % quantile of the normal distribution: CONFIDENCE, half of the rest on each side."""


@dataclass(frozen=True)
class Interval:
    """Where the true ratio is, with 95 % confidence."""

    low: float
    high: float


def of_quantity(quantity: Quantity, engines: Sequence[Increments], min_drafts: float = 0.0) -> Interval | None:
    """Interval of a ratio over these engines, pooled.

    None with fewer than ``min_drafts`` drafts, and while the spread of one of the engines is not known.

    Shares (the acceptance rate) stay within 0 and 1. Accepted tokens per draft stay within 0 and the mean draft
    length.
    """
    members = [engine for engine in engines if quantity.needed <= engine.counts.keys()]
    if sum([member.counts.get(Counter.DRAFTS, 0.0) for member in members]) < min_drafts:
        return None
    above = [_sum(quantity.above, member) for member in members]
    below = [_sum(quantity.below, member) for member in members]
    spread = _pooled_spread(
        members, below, lambda spread: spread.variances[quantity], lambda engine: _independent(quantity, engine)
    )
    if spread is None or not math.isfinite(sum(above)):
        return None
    if quantity is Quantity.ACCEPTANCE_RATE:
        return _between(sum(above), sum(below), 1.0, spread)
    if quantity is Quantity.ACCEPTED_PER_DRAFT:
        return _between(sum(above), sum(below), _mean_draft_length(members), spread)
    return _symmetric(sum(above) / sum(below), spread)


def of_position(position: int, engines: Sequence[Increments]) -> Interval | None:
    """Interval of the share of drafts whose token at this position was accepted, pooled."""
    members = [
        engine for engine in engines if Counter.DRAFTS in engine.counts and position < len(engine.accepted_per_position)
    ]
    drafts = [member.counts[Counter.DRAFTS] for member in members]
    spread = _pooled_spread(
        members, drafts, lambda spread: spread.positions[position], lambda engine: _binary(position, engine)
    )
    if spread is None:
        return None
    return _between(sum(member.accepted_per_position[position] for member in members), sum(drafts), 1.0, spread)


@dataclass(frozen=True)
class _Spread:
    variance: float
    degrees: float


def _pooled_spread(
    members: Sequence[Increments],
    below: Sequence[float],
    long_run: Callable[[Spread], float],
    independent: Callable[[Increments], float],
) -> _Spread | None:
    """Variance of the pooled ratio, with its degrees of freedom after Satterthwaite 1946."""
    variances, weights = [], []
    for member, denominator in zip(members, below, strict=True):
        if denominator <= 0:
            continue
        if member.spread is None:
            return None
        per_unit = member.spread.variance(long_run(member.spread), independent(member), member.seconds)
        variances.append(denominator * per_unit)
        weights.append(member.spread.degrees)
    total = sum(variances)
    if not variances or not math.isfinite(total + sum(below)):
        return None
    squares = sum(variance**2 / degrees for variance, degrees in zip(variances, weights, strict=True))
    degrees = total**2 / squares if squares > 0 else min(weights)
    return _Spread(total / sum(below) ** 2, degrees)


def _independent(quantity: Quantity, engine: Increments) -> float:
    """Variance per unit of the denominator, were all drafts of the window independent; 0 where it is not known.

    Where P_i of the drafts have more than i tokens accepted, the mean is Σ P_i and the mean square Σ (2i + 1) P_i.
    """
    drafts = engine.counts.get(Counter.DRAFTS, 0.0)
    below = _sum(quantity.below, engine)
    if quantity is Quantity.SECONDS_PER_TOKEN or drafts <= 0 or below <= 0:
        return 0.0
    rates = [accepted / drafts for accepted in engine.accepted_per_position]
    of_a_draft = sum([(2 * i + 1) * rate for i, rate in enumerate(rates)]) - sum(rates) ** 2
    return max(0.0, of_a_draft) * drafts / below


def _binary(position: int, engine: Increments) -> float:
    drafts = engine.counts[Counter.DRAFTS]
    rate = min(1.0, engine.accepted_per_position[position] / drafts) if drafts > 0 else 0.0
    return rate * (1 - rate)


def _between(above: float, below: float, limit: float, spread: _Spread) -> Interval | None:
    """Interval of a ratio that lies between 0 and ``limit``.

    Half a unit is added on each side, so that a ratio at a limit has an interval too. Nothing is taken to vary less
    than independent draft tokens would.
    """
    if limit <= 0:
        return None
    share = (above / limit + 0.5) / (below + 1)
    if not 0 < share < 1:
        return None
    binomial = share * (1 - share) / (below * limit)
    deviation = math.sqrt(max(spread.variance / limit**2, binomial)) / (share * (1 - share))
    middle, reach = math.log(share / (1 - share)), student(spread.degrees) * deviation
    return Interval(limit * _logistic(middle - reach), limit * _logistic(middle + reach))


def _symmetric(value: float, spread: _Spread) -> Interval:
    reach = student(spread.degrees) * math.sqrt(spread.variance)
    return Interval(value - reach, value + reach)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def student(degrees: float) -> float:
    """The 97.5 % quantile of Student's t, by Fisher's expansion around the normal: within 1 % from 3 degrees on."""
    return NORMAL + sum([term / degrees**power for power, term in enumerate(_FISHER, start=1)])


_FISHER = (
    (NORMAL**3 + NORMAL) / 4,
    (5 * NORMAL**5 + 16 * NORMAL**3 + 3 * NORMAL) / 96,
    (3 * NORMAL**7 + 19 * NORMAL**5 + 17 * NORMAL**3 - 15 * NORMAL) / 384,
)


def _mean_draft_length(members: Sequence[Increments]) -> float:
    drafts = sum(member.counts[Counter.DRAFTS] for member in members)
    tokens = sum(member.counts.get(Counter.DRAFT_TOKENS, 0.0) for member in members)
    return tokens / drafts if drafts > 0 else 0.0


def _sum(terms: Mapping[Counter, float], engine: Increments) -> float:
    return sum([weight * engine.counts[counter] for counter, weight in terms.items()])
