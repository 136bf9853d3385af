"""Statistics of a calibration: confidence intervals of ratios, and percentiles that add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantile of Student's t with 1, 2, … 30 degrees of freedom; any table has it."""
_NORMAL = 1.960
"""The same of the normal law, which t becomes."""

BIN = 1.02
"""Upper ÷ lower end of a histogram's bin: a percentile is off by 1 % at most, far less than a machine's noise."""


@dataclass(frozen=True)
class Estimate:
    """A ratio and, from two values on, its 95 % confidence interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def floor(self) -> float:
        """What to count on: the interval's lower end, or the value itself where there is no interval."""
        return self.value if self.low is None else self.low

    @property
    def above_one(self) -> bool | None:
        """Whether it is above 1; None: the interval holds 1, or there is none."""
        if self.low is None or self.high is None or self.low <= 1.0 <= self.high:
            return None
        return self.value > 1.0


def student(degrees: int) -> float:
    """97.5 % quantile of Student's t; beyond the table by the first term of its expansion around the normal law."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    return _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * degrees)


def ratio_of(ratios: Sequence[float]) -> Estimate:
    """The geometric mean of independent ratios above 0, and the t-interval of their logarithms.

    Logarithms, because a ratio and its inverse must be equally far from 1, and noise multiplies a duration.
    """
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Estimate(math.exp(mean))
    degrees = len(logs) - 1
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / degrees / len(logs)) * student(degrees)
    return Estimate(math.exp(mean), math.exp(mean - spread), math.exp(mean + spread))


def geometric_mean(values: Sequence[float]) -> float:
    """Of values above 0."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def binned(values: Iterable[float]) -> dict[int, int]:
    """A histogram of values above 0 whose bins grow by BIN; histograms add up, percentiles don't."""
    return dict(sorted(Counter(math.floor(math.log(value, BIN)) for value in values if value > 0).items()))


def added(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Several histograms as one."""
    total: Counter[int] = Counter()
    for histogram in histograms:
        total.update(histogram)
    return dict(sorted(total.items()))


def percentile(histogram: Mapping[int, int], share: float) -> float | None:
    """The value that this share of all values does not exceed, in the middle of its bin; None without values."""
    rank = share * sum(histogram.values())
    seen = 0
    for number, count in histogram.items():
        seen += count
        if seen >= rank:
            return math.pow(BIN, number + 0.5)
    return None
