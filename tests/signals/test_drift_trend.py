"""A slow decay is found against all that was seen before it, also while the reference is still learned."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable

import pytest

from specwatch.signals.drift_trend import (
    JUDGED_EVERY,
    JUDGED_FROM,
    LEAST,
    MOMENTS_A_DAY,
    ODDS,
    SPANS,
    Line,
    Trend,
)

BLOCK, TOKENS, DISPERSION = 15.0, 1200.0, 32.0
DAY = MOMENTS_A_DAY

Rate = Callable[[int], float]


def watched(rate: Rate, blocks: int, seed: int = 0, every: int = 1) -> Trend:
    """A trend that has seen blocks of ``rate(i)``, which stray as DISPERSION says."""
    trend, source = Trend(), random.Random(seed)
    for i in range(blocks):
        strays = source.gauss(0.0, math.sqrt(DISPERSION * TOKENS * 0.25))
        trend.add(i * every * BLOCK, every, TOKENS, rate(i) * TOKENS + strays)
    return trend


def falling(since: int, a_day: float) -> Rate:
    return lambda i: 0.53 - a_day * max(0, i - since) / DAY


def fall(trend: Trend) -> Line | None:
    return trend.line(DISPERSION)


def test_a_decay_of_two_points_a_day_is_found_within_a_day_and_dated():
    line = fall(watched(falling(since=2000, a_day=0.02), blocks=2000 + DAY))
    assert line is not None
    assert line.score >= 1
    assert line.since == pytest.approx(2000 * BLOCK, abs=0.25 * DAY * BLOCK)


def test_the_level_is_that_before_the_decay():
    line = fall(watched(falling(since=2000, a_day=0.03), blocks=2000 + DAY))
    assert line is not None
    assert line.level == pytest.approx(0.53, abs=0.005)
    assert line.accepted / line.tokens == pytest.approx(0.515, abs=0.005)


def test_a_slow_rise_is_none():
    assert fall(watched(falling(since=1000, a_day=-0.03), blocks=5000)) is None


def test_a_decay_too_small_to_matter_is_none_however_sure_it_is():
    small = LEAST * 0.8
    assert fall(watched(falling(since=0, a_day=small / 20), blocks=20 * DAY)) is None


def test_without_a_change_the_mean_likelihood_ratio_is_one_at_most():
    ratios = []
    for seed in range(200):
        line = fall(watched(falling(0, 0.0), blocks=2000, seed=seed))
        ratios.append(0.0 if line is None else (1 + ODDS) ** line.score - 1)
    assert sum(ratios) / len(ratios) < 1


def test_it_is_judged_after_an_hour_and_then_every_five_minutes():
    trend = Trend()
    judged = [i for i in range(1, 400) if trend.add(i * BLOCK, 1, TOKENS, 600)]
    assert judged == list(range(JUDGED_FROM, 400, JUDGED_EVERY))


def test_what_it_remembers_does_not_grow_and_nothing_is_lost():
    trend = watched(lambda i: 0.5, blocks=30 * DAY)
    spans = trend.state()["spans"]
    assert SPANS / 2 <= len(spans) <= SPANS
    assert sum(span[1] for span in spans) == 30 * DAY
    assert sum(span[3] for span in spans) == 30 * DAY * TOKENS


def test_where_blocks_took_longer_the_same_fall_is_as_sure():
    """A line is found by its shape over the blocks, at a quarter of the slope where they took four times as long."""
    by_day = fall(watched(falling(1000, 0.04), 4000))
    by_night = fall(watched(falling(1000, 0.04), 4000, every=4))
    assert by_day is not None
    assert by_night is not None
    assert by_night.since == 4 * by_day.since
    assert by_night.level == pytest.approx(by_day.level)


def test_a_trend_goes_on_from_its_state():
    trend = watched(falling(1000, 0.03), 3990)
    again = Trend.restore(json.loads(json.dumps(trend.state())))
    for i in range(3990, 4010):
        trend.add(i * BLOCK, 1, TOKENS, 500.0)
        again.add(i * BLOCK, 1, TOKENS, 500.0)
    assert again.state() == trend.state()
    assert fall(again) == fall(trend)


@pytest.mark.parametrize(
    "state",
    [
        {"length": 20, "spans": [[0.0, 20, 20.0, 0.0, 0.0]]},
        {"length": 0, "spans": []},
        {"length": 20, "spans": [[0.0, 1, 1.0, 9.0, 5.0]] * (SPANS + 1)},
        {"length": 20, "spans": [[0.0, 20]]},
    ],
)
def test_a_state_that_it_never_tells_is_refused(state: dict[str, object]):
    with pytest.raises(ValueError, match=r"spans|values to unpack"):
        Trend.restore(state)
