from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specwatch.signals.dispersion import Quantity, Spread
from specwatch.signals.interval import of_position, of_quantity, student
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter


def engine(
    drafts: float = 1000.0,
    rate: float = 0.5,
    variance: float = 4.0,
    degrees: float = 40.0,
    seconds: float = 300.0,
    life: float = 1.0,
) -> Increments:
    """A window of K = 4 with that acceptance rate, and that long-run variance a draft token."""
    spread = Spread(
        {
            Quantity.ACCEPTANCE_RATE: variance,
            Quantity.ACCEPTED_PER_DRAFT: variance * 4,
            Quantity.TOKENS_PER_STEP: variance * 4,
        },
        positions=(variance,) * 4,
        degrees=degrees,
        life=life,
    )
    counts = {
        Counter.DRAFTS: drafts,
        Counter.DRAFT_TOKENS: drafts * 4,
        Counter.ACCEPTED_TOKENS: drafts * 4 * rate,
        Counter.DECODE_STEPS: drafts,
        Counter.FIRST_TOKENS: 0.0,
        Counter.GENERATION_TOKENS: drafts * (1 + 4 * rate),
    }
    return Increments(seconds, counts, (drafts * rate,) * 4, spread)


def width(*engines: Increments) -> float:
    interval = of_quantity(Quantity.ACCEPTANCE_RATE, engines)
    assert interval is not None
    return interval.high - interval.low


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(3, 3.182), (4, 2.776), (6, 2.447), (10, 2.228), (30, 2.042), (1e9, 1.960)]
)
def test_students_quantiles_are_those_of_the_tables(degrees: float, quantile: float):
    assert student(degrees) == pytest.approx(quantile, rel=0.01)


def test_the_interval_is_the_measured_spread_times_the_quantile():
    deviation = math.sqrt(4.0 / 4000)
    assert width(engine(life=0.0)) == pytest.approx(2 * student(40) * deviation, rel=0.01)


def test_four_times_the_drafts_halve_the_interval():
    assert width(engine(drafts=4000.0, life=0.0)) == pytest.approx(width(engine(life=0.0)) / 2, rel=0.02)


def test_the_spread_of_requests_makes_it_wider_than_independent_drafts_would():
    # All positions of this engine are accepted alike: a draft of 4 is accepted as a whole or not at all.
    independent = 2 * 1.96 * math.sqrt(0.25 / 1000)
    assert width(engine(variance=0.0)) == pytest.approx(independent, rel=0.05)
    assert width(engine(variance=29.0)) == pytest.approx(independent * math.sqrt(29), rel=0.07)


def test_chance_within_a_request_shows_in_the_shortest_window():
    independent = 2 * 1.96 * math.sqrt(0.25 / 1000)
    told = engine(variance=10.0, seconds=1.0, life=1000.0)
    assert width(told) == pytest.approx(independent, rel=0.05)


def test_where_positions_are_not_told_nothing_is_taken_for_chance_beyond_single_tokens():
    told = replace(engine(variance=0.0), accepted_per_position=())
    assert width(told) == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 4000), rel=0.05)


def test_few_batches_seen_make_it_wider():
    assert width(engine(degrees=4.0)) > 1.3 * width(engine(degrees=40.0))


def test_a_window_that_is_short_beside_a_request_s_life_varies_less():
    assert width(engine(seconds=60.0, life=120.0)) < 0.7 * width(engine(seconds=60.0, life=1.0))


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.5, 0.999, 1.0])
def test_it_stays_between_its_limits_and_holds_the_value(rate: float):
    told = engine(rate=rate, variance=rate * (1 - rate) * 30)
    interval, position = of_quantity(Quantity.ACCEPTANCE_RATE, [told]), of_position(2, [told])
    for found in (interval, position):
        assert found is not None
        assert 0 <= found.low <= rate + 1e-3
        assert rate - 1e-3 <= found.high <= 1
        assert found.low < found.high
    length = of_quantity(Quantity.ACCEPTED_PER_DRAFT, [told])
    assert length is not None
    assert 0 <= length.low < length.high <= 4


def test_an_interval_near_a_limit_is_skewed_away_from_it():
    interval = of_quantity(Quantity.ACCEPTANCE_RATE, [engine(rate=0.95, variance=1.0)])
    assert interval is not None
    assert 0.95 - interval.low > interval.high - 0.95


def test_the_interval_of_tokens_per_step_has_no_limits():
    interval = of_quantity(Quantity.TOKENS_PER_STEP, [engine()])
    assert interval is not None
    assert (interval.low + interval.high) / 2 == pytest.approx(3.0)


def test_two_alike_engines_are_as_sure_as_one_with_twice_the_traffic():
    assert width(engine(), engine()) == pytest.approx(width(engine(drafts=2000.0, degrees=80.0)), rel=0.01)


def test_the_engine_that_is_known_badly_decides_how_sure_a_pool_is():
    one_badly = width(engine(variance=40.0, degrees=4.0), engine(variance=0.4, degrees=400.0))
    both_well = width(engine(variance=40.0, degrees=400.0), engine(variance=0.4, degrees=400.0))
    assert one_badly > 1.3 * both_well


def test_without_a_spread_there_is_no_interval():
    unknown = Increments(60.0, engine().counts, engine().accepted_per_position)
    assert of_quantity(Quantity.ACCEPTANCE_RATE, [unknown]) is None
    assert of_quantity(Quantity.ACCEPTANCE_RATE, [engine(), unknown]) is None
    assert of_position(0, [unknown]) is None
    assert of_quantity(Quantity.ACCEPTANCE_RATE, []) is None


def test_an_idle_engine_without_a_spread_does_not_matter():
    idle = Increments(60.0, dict.fromkeys(engine().counts, 0.0), (0.0,) * 4)
    assert width(engine(), idle) == pytest.approx(width(engine()))


def test_few_drafts_have_no_interval():
    assert of_quantity(Quantity.ACCEPTANCE_RATE, [engine(drafts=29.0)], min_drafts=30) is None
    assert of_quantity(Quantity.ACCEPTANCE_RATE, [engine(drafts=30.0)], min_drafts=30) is not None


def test_a_position_that_an_engine_does_not_have_is_left_to_the_others():
    assert of_position(4, [engine()]) is None


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("quantity", list(Quantity)[:3], ids=lambda quantity: quantity.name)
def test_counts_that_are_no_finite_numbers_have_no_interval(quantity: Quantity, value: float):
    told = engine()
    for counter in quantity.needed:
        broken = replace(told, counts={**told.counts, counter: value})
        interval = of_quantity(quantity, [broken])
        assert interval is None or math.isfinite(interval.low + interval.high)
