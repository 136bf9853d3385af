"""The shape of a fall: all at once, or little by little since a moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_POINTS = 8
"""Points below which a step and a slope cannot be told apart: each shape has up to three figures to fit."""

PLACE_COST = 3.0
"""Figures that a step has to fit beyond a slope: a place, chosen by looking at all of them, counts for three (the
modified BIC of Zhang and Siegmund 2007 takes 3/2 log n of a change where a parameter takes 1/2)."""

INDEPENDENT = 2 / 3
"""Share of the points that are as good as independent: requests span neighbouring blocks, and noise that lingers looks
like a step."""

LEAST_EVIDENCE = 3.0
"""Fall over its standard error from which a shape is taken for one. That there was a fall at all, others have found."""

LEAST_EARLY = 0.15
"""Share of the whole fall that its first third must bring where it began at the beginning: a straight line brings a
third there, one that flattens out brings more."""


@dataclass(frozen=True)
class Point:
    """A value, how much it weighs (draft tokens, say), and when."""

    at: float
    value: float
    weight: float


@dataclass(frozen=True)
class Decay:
    """A fall that began with the first point and went on little by little."""

    start: float
    """Fitted value at the first point."""
    end: float
    """Fitted value at the last point."""
    per_hour: float
    """Mean change an hour, negative."""


def decay(points: Sequence[Point], least_fall: float) -> Decay | None:
    """The decay that these points show, or None where they show none of at least ``least_fall``.

    Straight lines and curves that flatten out are held against the best single step: what a step explains better is
    no decay.
    """
    if len(points) < LEAST_POINTS:
        return None
    shapes = [_line(points), *(_levelling(points, share) for share in (0.15, 0.4))]
    fits = [_fit(points, shape) for shape in shapes]
    error, start, end = min(fits)
    fall = start - end
    if fall < least_fall or fall < LEAST_EVIDENCE * _standard_error(points, error):
        return None
    allowance = len(points) ** (PLACE_COST / (len(points) * INDEPENDENT))
    if error >= allowance * _step_error(points) or not _began_at_once(points, fall):
        return None
    return Decay(start, end, (end - start) / (points[-1].at - points[0].at) * 3600)


def _line(points: Sequence[Point]) -> Callable[[float], float]:
    first, last = points[0].at, points[-1].at
    return lambda at: (at - first) / (last - first)


def _levelling(points: Sequence[Point], share: float) -> Callable[[float], float]:
    """A curve that has covered 63 % of its way after that share of the time."""
    line = _line(points)
    return lambda at: 1 - math.exp(-line(at) / share)


def _fit(points: Sequence[Point], shape: Callable[[float], float]) -> tuple[float, float, float]:
    """Weighted squares left over, and the fitted first and last values."""
    x = [shape(point.at) for point in points]
    total = sum(point.weight for point in points)
    mean_x = sum(a * point.weight for a, point in zip(x, points, strict=True)) / total
    mean_y = sum(point.value * point.weight for point in points) / total
    across = sum(point.weight * (a - mean_x) * (point.value - mean_y) for a, point in zip(x, points, strict=True))
    slope = across / sum(point.weight * (a - mean_x) ** 2 for a, point in zip(x, points, strict=True))
    fitted = [mean_y + slope * (a - mean_x) for a in x]
    error = sum(point.weight * (point.value - b) ** 2 for b, point in zip(fitted, points, strict=True))
    return error, fitted[0], fitted[-1]


def _step_error(points: Sequence[Point]) -> float:
    """Weighted squares left over by the best single step."""
    return min(_spread(points[:cut]) + _spread(points[cut:]) for cut in range(1, len(points)))


def _spread(points: Sequence[Point]) -> float:
    mean = _mean(points)
    return sum(point.weight * (point.value - mean) ** 2 for point in points)


def _mean(points: Sequence[Point]) -> float:
    return sum(point.value * point.weight for point in points) / sum(point.weight for point in points)


def _standard_error(points: Sequence[Point], error: float) -> float:
    """Of the fitted fall: √12 times that of a mean, as of a line's ends at evenly spread points."""
    return math.sqrt(12 * error / (len(points) - 2) / sum(point.weight for point in points))


def _began_at_once(points: Sequence[Point], fall: float) -> bool:
    third = len(points) // 3
    first, second = points[:third], points[third : 2 * third]
    return _mean(first) - _mean(second) >= LEAST_EARLY * fall


def difference(before: Sequence[Point], after: Sequence[Point]) -> tuple[float, float] | None:
    """Change of the weighted mean and its standard error, from how much neighbours differ; None with too few points."""
    if len(before) < 3 or len(after) < 3:
        return None
    error = math.sqrt(_neighbours(before) / len(before) + _neighbours(after) / len(after))
    return _mean(after) - _mean(before), error


def _neighbours(points: Sequence[Point]) -> float:
    """Variance of a point about its slow course: half the mean square of differences of neighbours."""
    squares = [(b.value - a.value) ** 2 for a, b in pairwise(points)]
    return sum(squares) / (2 * len(squares))
