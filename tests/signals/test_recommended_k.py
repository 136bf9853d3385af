from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.signals.recommended_k import Recommended, recommend


def linear(c: float, v: float = 1.0):
    return lambda k: v + k * c


def test_the_best_k_is_where_the_next_position_no_longer_pays():
    assert recommend((0.8, 0.6, 0.05, 0.04), linear(0.1)) == Recommended(2, pytest.approx(2.4 / 1.2))


def test_where_no_k_pays_plain_decoding_is_recommended():
    assert recommend((0.02, 0.01), linear(0.1)) == Recommended(0, 1.0)


def test_only_those_k_are_judged_whose_cost_is_known():
    costs = {1: None, 2: None, 3: 1.2}
    assert recommend((0.8, 0.6, 0.05), costs.get) == Recommended(3, pytest.approx(2.45 / 1.2))


def test_a_position_that_was_never_seen_ends_the_search():
    assert recommend((0.9, None, 0.9), linear(0.01)) == Recommended(1, pytest.approx(1.9 / 1.01))


@pytest.mark.parametrize("rates", [(), (None, 0.5)])
def test_without_a_rate_or_a_cost_nothing_is_recommended(rates: tuple[float | None, ...]):
    assert recommend(rates, linear(0.1)) is None
    assert recommend((0.9,), lambda k: None) is None


def test_of_equal_ones_the_smallest_is_recommended():
    assert recommend((0.5, 0.0, 0.0), lambda k: 1.2) == Recommended(1, pytest.approx(1.25))


@given(
    rates=st.lists(st.floats(0, 1), min_size=1, max_size=8).map(lambda rates: tuple(sorted(rates, reverse=True))),
    c=st.floats(0.001, 1.0),
    v=st.floats(1.0, 3.0),
)
def test_no_other_k_is_faster(rates: tuple[float, ...], c: float, v: float):
    best = recommend(rates, linear(c, v))
    assert best is not None
    speeds = [1.0, *((1 + sum(rates[:k])) / (v + k * c) for k in range(1, len(rates) + 1))]
    assert best.speedup == pytest.approx(max(speeds))
    assert 0 <= best.k <= len(rates)
