"""Falls at once and falls little by little."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from specwatch.signals.trend import LEAST_POINTS, Point, decay, difference


def points(course: Callable[[float], float], count: int = 40, noise: float = 0.02, seed: int = 0) -> list[Point]:
    """``course`` from 0 to 1 over an hour."""
    source = random.Random(seed)
    return [
        Point(3600 * i / (count - 1), course(i / (count - 1)) + source.gauss(0, noise), 1000.0) for i in range(count)
    ]


@pytest.mark.parametrize("seed", range(10))
def test_a_straight_and_a_flattening_decay_are_found(seed: int):
    straight = decay(points(lambda t: 0.8 - 0.2 * t, seed=seed), 0.05)
    assert straight is not None
    assert straight.start == pytest.approx(0.8, abs=0.03)
    assert straight.per_hour == pytest.approx(-0.2, abs=0.05)
    assert decay(points(lambda t: 0.6 + 0.2 * math.exp(-4 * t), seed=seed), 0.05) is not None


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_a_step_is_no_decay(at: float, seed: int):
    assert decay(points(lambda t: 0.8 if t < at else 0.6, seed=seed), 0.05) is None


@pytest.mark.parametrize("seed", range(10))
def test_noise_a_rise_and_a_late_ramp_are_no_decay(seed: int):
    assert decay(points(lambda _t: 0.8, seed=seed), 0.05) is None
    assert decay(points(lambda t: 0.6 + 0.2 * t, seed=seed), 0.05) is None
    assert decay(points(lambda t: 0.8 - 0.6 * max(t - 0.6, 0), seed=seed), 0.05) is None


def test_few_points_show_nothing():
    assert decay(points(lambda t: 0.8 - 0.2 * t, count=LEAST_POINTS - 1), 0.05) is None


def test_points_that_all_agree_divide_by_nothing():
    assert decay(points(lambda _t: 0.8, noise=0.0), 0.05) is None
    assert decay(points(lambda t: 0.8 - 0.2 * t, noise=0.0), 0.05) is not None


def test_a_difference_has_the_error_of_its_noise():
    found = difference(points(lambda _t: 0.8), points(lambda _t: 0.7, seed=1))
    assert found is not None
    assert found[0] == pytest.approx(-0.1, abs=0.015)
    assert found[1] == pytest.approx(0.02 * math.sqrt(2 / 40), rel=0.5)
    assert difference(points(lambda _t: 0.8, count=2), points(lambda _t: 0.8)) is None
