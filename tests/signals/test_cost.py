from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.signals.cost import CostCurve, CostPoint


def point(k: int, batch: float, ratio: float, plain: float = 0.02) -> CostPoint:
    return CostPoint(k, batch, step_seconds=ratio * plain, plain_step_seconds=plain)


ONE_K = CostCurve.of([point(5, 1, 1.2), point(5, 4, 1.4, plain=0.03), point(5, 16, 2.0, plain=0.05)])
TWO_K = CostCurve.of([point(k, batch, 1.05 + 0.04 * k * batch) for k in (3, 7) for batch in (1, 4)])


def test_costs_are_told_where_they_were_measured():
    assert ONE_K.ratio(5, 1) == pytest.approx(1.2)
    assert ONE_K.ratio(5, 16) == pytest.approx(2.0)
    assert ONE_K.plain_seconds(4) == pytest.approx(0.03)


def test_costs_are_interpolated_on_a_logarithmic_scale():
    assert ONE_K.ratio(5, 2) == pytest.approx(1.3)
    assert ONE_K.ratio(5, 8) == pytest.approx(1.7)
    assert ONE_K.plain_seconds(8) == pytest.approx(0.04)


def test_a_batch_below_the_smallest_costs_what_the_smallest_does():
    assert ONE_K.ratio(5, 0.2) == pytest.approx(1.2)


def test_a_batch_above_the_largest_is_not_covered():
    assert ONE_K.covers(20)
    assert not ONE_K.covers(21)
    assert ONE_K.ratio(5, 100) == pytest.approx(2.0)
    assert ONE_K.plain_seconds(100) is None


def test_no_drafting_costs_what_no_drafting_costs():
    assert ONE_K.ratio(0, 7) == 1.0


@pytest.mark.parametrize("k", [1, 4, 6, 8])
def test_one_measured_k_says_nothing_of_another(k: int):
    assert ONE_K.ratio(k, 4) is None
    assert ONE_K.draft_cost(4) is None


def test_k_between_two_measured_ones_lies_between_their_costs():
    assert TWO_K.ratio(5, 1) == pytest.approx(1.25)
    assert TWO_K.ratio(2, 1) is None
    assert TWO_K.ratio(8, 1) is None


def test_two_k_separate_drafting_from_verifying():
    cost = TWO_K.draft_cost(1)
    assert cost is not None
    assert (cost.c, cost.v) == (pytest.approx(0.04), pytest.approx(1.05))
    assert cost.source == "calibrated: step times at K = 3, 7"


def test_noise_that_makes_longer_drafts_cheaper_separates_nothing():
    assert CostCurve.of([point(3, 1, 1.3), point(7, 1, 1.2)]).draft_cost(1) is None


def test_a_point_measured_twice_counts_as_its_mean():
    assert CostCurve.of([point(5, 1, 1.2), point(5, 1, 1.4)]).ratio(5, 1) == pytest.approx(1.3)


@given(
    ratios=st.lists(st.floats(0.5, 10), min_size=1, max_size=6),
    k=st.floats(1, 8),
    batch=st.floats(1e-6, 1e6),
)
def test_no_cost_lies_outside_the_measured_ones(ratios: list[float], k: float, batch: float):
    curve = CostCurve.of([point(2 + i % 3, 2.0**i, ratio) for i, ratio in enumerate(ratios)])
    cost = curve.ratio(k, batch)
    assert cost is None or min(ratios) * 0.999 <= cost <= max(ratios) * 1.001


def test_a_calibration_s_entry_is_read():
    entry = {"num_speculative_tokens": 5, "concurrency": 8, "step_seconds": 0.03, "plain_step_seconds": 0.02, "x": 1}
    assert CostPoint.read(entry).ratio == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (7, "an entry is an object"),
        ({}, "num_speculative_tokens must be a number above 0, not None"),
        ({"num_speculative_tokens": True}, "num_speculative_tokens must be a number"),
        ({"num_speculative_tokens": 2.5, "concurrency": 1, "step_seconds": 1, "plain_step_seconds": 1}, "whole"),
        ({"num_speculative_tokens": 2, "concurrency": 1, "step_seconds": 0, "plain_step_seconds": 1}, "above 0, not 0"),
        (
            {"num_speculative_tokens": 2, "concurrency": "1", "step_seconds": 1, "plain_step_seconds": 1},
            "concurrency must be a number",
        ),
        (
            {"num_speculative_tokens": 2, "concurrency": 1, "step_seconds": float("nan"), "plain_step_seconds": 1},
            "step_seconds must be a number above 0, not nan",
        ),
    ],
)
def test_what_is_no_measurement_is_refused(entry: object, complaint: str):
    with pytest.raises(InputError, match=complaint):
        CostPoint.read(entry)


def test_a_curve_needs_a_point():
    with pytest.raises(InputError, match="at least one"):
        CostCurve.of([])
