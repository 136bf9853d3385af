"""What a speculative step costs at each batch size, as a calibration measured it on one deployment.

The step-cost ratio w(b, K) is the time of one speculative step, drafting and verifying included, over the time of
one plain step at the same batch size b. Whatever a draft costs is in it: launches, scheduling and sampling as well,
which no formula over the models' sizes knows. A step that brings L tokens is then worth S = L / w(b, K).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from specwatch.errors import InputError
from specwatch.signals.speedup import UNDRAFTED, DraftCost

BEYOND = 1.25
"""How many times the largest measured batch size may be exceeded: a ladder of concurrencies has steps of two, and the
batch of a closed loop wanders by a few requests."""

Curve = tuple[tuple[float, float], ...]
"""Values by batch size, batch sizes ascending."""


@dataclass(frozen=True)
class CostPoint:
    """One measurement: the same load at the same concurrency with K draft tokens, and without speculation."""

    num_speculative_tokens: int
    """K as configured; a method that drafts fewer is measured as it drafts."""
    concurrency: float
    """Mean number of requests that decode at once: Δ ITL sum ÷ seconds, by Little's law."""
    step_seconds: float
    """Mean ITL with speculation: one speculative step."""
    plain_step_seconds: float
    """Mean ITL of the same server without speculation: one plain step, and so one token."""

    def __post_init__(self) -> None:
        for name, value in ((field.name, getattr(self, field.name)) for field in fields(self)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value <= 0:
                raise InputError(f"costs: {name} must be a number above 0, not {value!r}")
        if self.num_speculative_tokens != int(self.num_speculative_tokens):
            raise InputError(f"costs: num_speculative_tokens must be whole, not {self.num_speculative_tokens!r}")

    @classmethod
    def read(cls, entry: Any) -> CostPoint:
        """From an entry of a calibration's ``costs``; other keys are left alone. InputError where it is none."""
        if not isinstance(entry, Mapping):
            raise InputError(f"costs: an entry is an object, not {entry!r:.40}")
        return cls(**{field.name: entry.get(field.name) for field in fields(cls)})  # type: ignore[arg-type]

    @property
    def ratio(self) -> float:
        """The step-cost ratio w."""
        return self.step_seconds / self.plain_step_seconds


@dataclass(frozen=True)
class CostCurve:
    """Step costs of one deployment over batch size, for every K that was measured.

    Between measured batch sizes values are interpolated on a logarithmic scale, below the smallest they stay as they
    are there. Above the largest they do too, but ``covers`` says no: costs grow there, nobody measured how.
    """

    ratios: Mapping[int, Curve]
    """w by batch size, for each K."""
    plain: Curve
    """Seconds of a plain step by batch size: plain decoding's TPOT."""

    @classmethod
    def of(cls, points: Iterable[CostPoint]) -> CostCurve:
        """The curve through these points; of several at one K and batch size, the mean. InputError without any."""
        given = list(points)
        if not given:
            raise InputError("costs: at least one measurement is needed")
        return cls(
            ratios={
                k: _curve((p.concurrency, p.ratio) for p in given if p.num_speculative_tokens == k)
                for k in sorted({int(point.num_speculative_tokens) for point in given})
            },
            plain=_curve((p.concurrency, p.plain_step_seconds) for p in given),
        )

    @property
    def largest_batch(self) -> float:
        """The largest batch size that every K was measured at."""
        return min(curve[-1][0] for curve in self.ratios.values())

    def covers(self, batch_size: float) -> bool:
        """Whether this batch size is no larger than what was measured."""
        return batch_size <= self.largest_batch * BEYOND

    def ratio(self, k: float, batch_size: float) -> float | None:
        """w(b, K): time of a step with ``k`` draft tokens ÷ a plain one; 1 for ``k`` = 0.

        Between measured K it is interpolated, for drafting adds the same to each token. None for other K.
        """
        if k == 0:
            return 1.0
        measured = list(self.ratios)
        if not measured[0] - UNDRAFTED <= k <= measured[-1] + UNDRAFTED or batch_size <= 0:
            return None
        across = tuple((float(each), _at(curve, batch_size)) for each, curve in self.ratios.items())
        return _linear(across, k)

    def plain_seconds(self, batch_size: float) -> float | None:
        """Seconds of a plain step, which is one token, at this batch size; None beyond what was measured."""
        if not 0 < batch_size <= self.plain[-1][0] * BEYOND:
            return None
        return _at(self.plain, batch_size)

    def draft_cost(self, batch_size: float) -> DraftCost | None:
        """The c and v of this batch size, from w = v + K·c by least squares; None where one K alone was measured."""
        if len(self.ratios) < 2 or batch_size <= 0:
            return None
        ks = list(self.ratios)
        costs = [_at(curve, batch_size) for curve in self.ratios.values()]
        mean_k, mean_cost = sum(ks) / len(ks), sum(costs) / len(costs)
        c = sum((k - mean_k) * (cost - mean_cost) for k, cost in zip(ks, costs, strict=True)) / sum(
            (k - mean_k) ** 2 for k in ks
        )
        if c <= 0:  # noise exceeds what a draft token costs
            return None
        return DraftCost(c, mean_cost - mean_k * c, f"calibrated: step times at K = {_listed(ks)}")


def _curve(points: Iterable[tuple[float, float]]) -> Curve:
    by_batch: dict[float, list[float]] = {}
    for batch_size, value in points:
        by_batch.setdefault(float(batch_size), []).append(value)
    return tuple((batch_size, sum(values) / len(values)) for batch_size, values in sorted(by_batch.items()))


def _at(curve: Curve, batch_size: float) -> float:
    return _linear(tuple((math.log(size), value) for size, value in curve), math.log(batch_size))


def _linear(curve: Sequence[tuple[float, float]], x: float) -> float:
    """Linear between the points, constant beyond them."""
    after = bisect_right(curve, (x, math.inf))
    if after == 0:
        return curve[0][1]
    if after == len(curve):
        return curve[-1][1]
    (x0, y0), (x1, y1) = curve[after - 1], curve[after]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
