from __future__ import annotations

import pytest

from specwatch.signals.plain_speed import PlainSpeed
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter


def step(batch: float, seconds_per_token: float, seconds: float = 5.0, drafts: float = 0.0) -> Increments:
    """What one engine without speculation counts at a steady batch size."""
    tokens = batch * seconds / seconds_per_token
    counts = {Counter.DECODE_STEPS: tokens, Counter.DECODE_STEP_SECONDS: batch * seconds, Counter.DRAFTS: drafts}
    return Increments(seconds, counts)


def remembered(*steps: Increments) -> PlainSpeed:
    speed = PlainSpeed()
    for each in steps:
        speed.observe(each)
    return speed


def test_a_speed_is_told_at_the_batch_size_where_it_was_seen():
    speed = remembered(step(4, 0.02), step(16, 0.05))
    assert speed.seconds(4) == pytest.approx(0.02)
    assert speed.seconds(16) == pytest.approx(0.05)


def test_between_batch_sizes_that_were_seen_it_is_interpolated():
    assert remembered(step(4, 0.02), step(8, 0.03)).seconds(32**0.5) == pytest.approx(0.025)


@pytest.mark.parametrize("batch", [1.0, 2.5, 6.0, 64.0, 0.0, -1.0])
def test_where_no_twin_ran_it_is_not_known(batch: float):
    assert remembered(step(4, 0.02)).seconds(batch) is None


def test_a_gap_of_several_doublings_is_not_bridged():
    speed = remembered(step(1, 0.02, seconds=60.0), step(64, 0.09))
    assert speed.seconds(8) is None
    assert speed.seconds(1.2) == pytest.approx(0.02)
    assert speed.seconds(60) == pytest.approx(0.09)


def test_a_handful_of_answers_says_nothing():
    assert remembered(step(4, 0.02, seconds=1.0)).seconds(4) is None


def test_what_was_long_ago_fades():
    speed = remembered(*[step(4, 0.02)] * 200, *[step(4, 0.04)] * 2000)
    assert speed.seconds(4) == pytest.approx(0.04, rel=0.01)


def test_a_server_that_drafts_is_no_twin():
    assert remembered(step(4, 0.02, drafts=10.0)).seconds(4) is None


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_counts_of_a_broken_page_are_left_out(value: float):
    broken = Increments(5.0, {Counter.DECODE_STEPS: value, Counter.DECODE_STEP_SECONDS: value})
    assert remembered(step(4, 0.02), broken).seconds(4) == pytest.approx(0.02)
    assert remembered(Increments(5.0)).seconds(4) is None


def test_memory_is_bounded_by_the_bins():
    speed = remembered(*[step(1.003**i, 0.02) for i in range(-5000, 5000)])
    assert len(speed._bins) <= 50
