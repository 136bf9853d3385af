from __future__ import annotations

import pytest

from specwatch.signals.speedup import (
    ASSUMED,
    MEASURED_TO_FORMULA,
    DraftCost,
    band,
    from_parameter_counts,
    given,
    last_position_worth,
    speedup_formula,
)
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

# Leviathan et al. 2023, table 1: c = 0.  alpha, gamma, speedup
TABLE_1 = [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)]

# Leviathan et al. 2023, appendix A.3.  task, alpha, gamma, c, expected, measured
TABLE_A3 = [
    ("EnDe small, 0", 0.75, 7, 0.02, 3.2, 3.4),
    ("EnDe base, 0", 0.80, 7, 0.04, 3.3, 2.8),
    ("EnDe large, 0", 0.82, 7, 0.11, 2.5, 1.7),
    ("EnDe small, 1", 0.62, 7, 0.02, 2.3, 2.6),
    ("EnDe base, 1", 0.68, 5, 0.04, 2.4, 2.4),
    ("EnDe large, 1", 0.71, 3, 0.11, 2.0, 1.4),
    ("CNNDM small, 0", 0.65, 5, 0.02, 2.4, 3.1),
    ("CNNDM base, 0", 0.73, 5, 0.04, 2.6, 3.0),
    ("CNNDM large, 0", 0.74, 3, 0.11, 2.0, 2.2),
    ("CNNDM small, 1", 0.53, 5, 0.02, 1.9, 2.3),
    ("CNNDM base, 1", 0.55, 3, 0.04, 1.8, 2.2),
    ("CNNDM large, 1", 0.56, 3, 0.11, 1.6, 1.7),
]


def drafts_of_constant_alpha(alpha: float, k: int, drafts: float = 1000.0) -> Increments:
    """What the counters say when every draft token is accepted with probability alpha given those before it."""
    accepted = drafts * sum(alpha**i for i in range(1, k + 1))
    return Increments(
        seconds=60.0,
        counts={Counter.DRAFTS: drafts, Counter.DRAFT_TOKENS: drafts * k, Counter.ACCEPTED_TOKENS: accepted},
    )


def expected_speedup(alpha: float, k: int, c: float) -> float:
    value = speedup_formula(DraftCost(c), at_least={}).over([drafts_of_constant_alpha(alpha, k)])
    assert value is not None
    return value


@pytest.mark.parametrize(("alpha", "k", "speedup"), TABLE_1)
def test_table_1_of_leviathan(alpha: float, k: int, speedup: float):
    assert expected_speedup(alpha, k, c=0.0) == pytest.approx(speedup, abs=0.005)


@pytest.mark.parametrize(("task", "alpha", "k", "c", "expected", "measured"), TABLE_A3)
def test_appendix_a3_of_leviathan(task: str, alpha: float, k: int, c: float, expected: float, measured: float):
    # The paper rounds alpha, c and the result to one or two digits: three rows miss by that.
    assert expected_speedup(alpha, k, c) == pytest.approx(expected, abs=0.07), task
    low, high = band(expected_speedup(alpha, k, c))
    assert low - 0.01 <= measured <= high + 0.01


@pytest.mark.parametrize(("alpha", "speedup"), [(0.75, 3.3), (0.80, 3.9), (0.87, 4.9)])
def test_appendix_a5_of_leviathan(alpha: float, speedup: float):
    assert expected_speedup(alpha, k=8, c=0.015) == pytest.approx(speedup, abs=0.07)


def test_the_band_is_the_spread_of_measured_to_expected():
    ratios = [measured / expected_speedup(alpha, k, c) for _, alpha, k, c, _, measured in TABLE_A3]
    assert (min(ratios), max(ratios)) == pytest.approx(MEASURED_TO_FORMULA, abs=0.01)


@pytest.mark.parametrize("c", [0.02, 0.05, 0.11, 0.4])
@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_speculation_breaks_even_where_acceptance_equals_the_draft_cost(c: float, k: int):
    drafts = Increments(
        60.0, {Counter.DRAFTS: 1000.0, Counter.DRAFT_TOKENS: 1000.0 * k, Counter.ACCEPTED_TOKENS: 1000.0 * k * c}
    )
    assert speedup_formula(DraftCost(c), at_least={}).over([drafts]) == pytest.approx(1.0)
    assert DraftCost(c).break_even_acceptance == c


def test_every_cost_says_where_it_comes_from():
    assert "assumed" in ASSUMED.source
    assert "2.5%" in from_parameter_counts(0.025).source


@pytest.mark.parametrize(
    ("rates", "length", "worth"),
    [
        ((0.8, 0.5, 0.02), 3.0, 0.4),
        ((0.8, 0.5, 0.02), 2.95, 0.4),
        ((0.8, 0.5, 0.02), 2.5, None),
        ((0.8, None, None), 1.0, 16.0),
        ((), 3.0, None),
        ((0.8,), None, None),
    ],
)
def test_the_last_position_is_worth_its_acceptance_over_its_cost_where_it_is_drafted(rates, length, worth):
    assert last_position_worth(rates, length, given(0.05)) == (None if worth is None else pytest.approx(worth))


def test_a_draft_that_costs_nothing_wastes_nothing():
    assert last_position_worth((0.1,), 1.0, given(0.0)) is None
