"""Intervals that hold what they promise, and histograms that add up."""

from __future__ import annotations

import math
import random

import pytest

from specwatch.measure.calibration.stats import BIN, Estimate, added, binned, percentile, ratio_of, student


def test_a_ratio_is_the_geometric_mean_of_its_repetitions():
    assert ratio_of([0.5, 2.0]).value == pytest.approx(1.0)
    assert ratio_of([1.5, 1.5, 1.5]) == Estimate(pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))


def test_one_repetition_has_no_interval():
    assert ratio_of([1.7]) == Estimate(pytest.approx(1.7))
    assert ratio_of([1.7]).floor == pytest.approx(1.7)
    assert ratio_of([1.7]).above_one is None


def test_a_ratio_and_its_inverse_have_inverse_intervals():
    ratios = [1.2, 1.5, 1.4, 1.1]
    one, other = ratio_of(ratios), ratio_of([1 / ratio for ratio in ratios])
    assert one.low is not None
    assert other.high is not None
    assert one.low == pytest.approx(1 / other.high)


def test_the_interval_is_students():
    # By hand: logarithms 0.1, 0.2, 0.3 have mean 0.2, deviation 0.1, and t with 2 degrees of freedom is 4.303.
    found = ratio_of([math.exp(x) for x in (0.1, 0.2, 0.3)])
    assert found.low == pytest.approx(math.exp(0.2 - 4.303 * 0.1 / math.sqrt(3)))
    assert found.high == pytest.approx(math.exp(0.2 + 4.303 * 0.1 / math.sqrt(3)))


@pytest.mark.parametrize("repetitions", [2, 4, 8])
def test_nineteen_intervals_of_twenty_hold_the_truth(repetitions):
    source = random.Random(1)
    held = 0
    for _ in range(4000):
        found = ratio_of([1.3 * math.exp(source.gauss(0, 0.2)) for _ in range(repetitions)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1.3 <= found.high
    assert held / 4000 == pytest.approx(0.95, abs=0.015)


def test_quantiles_go_on_where_the_table_ends():
    # 2.021 with 40 and 1.984 with 100 degrees of freedom, in any table.
    assert student(40) == pytest.approx(2.021, abs=0.003)
    assert student(100) == pytest.approx(1.984, abs=0.002)
    assert student(30) > student(31) > student(32)


def test_percentiles_of_added_histograms_are_those_of_all_values():
    source = random.Random(2)
    parts = [[source.expovariate(50) for _ in range(500)] for _ in range(3)]
    together = sorted(value for part in parts for value in part)
    histogram = added(binned(part) for part in parts)
    for share in (0.5, 0.9, 0.99):
        exact = together[math.ceil(share * len(together)) - 1]
        assert percentile(histogram, share) == pytest.approx(exact, rel=BIN - 1)


def test_no_values_have_no_percentile():
    assert percentile(binned([0.0, -1.0]), 0.5) is None
