from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.lab.simulated_engine import StepCost
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.signals.dispersion import Quantity, Spread
from specwatch.signals.plain_speed import PlainSpeed
from specwatch.signals.speedup import DraftCost, Speedup, SpeedupKind, band
from specwatch.signals.window import Increments
from specwatch.signals.worth import Basis, assess, pooled
from specwatch.vllm.metrics import Counter

HARDWARE = StepCost(weights_seconds=0.02, token_seconds=0.001, draft_ratio=0.05)
"""Bound by memory up to 20 tokens a step, by arithmetic beyond."""


def server(
    rates: tuple[float, ...] = (0.8, 0.6, 0.5, 0.4, 0.3),
    batch: int = 4,
    seconds: float = 300.0,
    coverage: float = 1.0,
    truncated: float = 0.0,
    slowness: float = 1.0,
) -> Increments:
    """What a server of that hardware counts at a steady batch size, with these acceptance rates by position.

    ``truncated`` is the share of accepted tokens that are thrown away, ``slowness`` multiplies the time of its steps.
    """
    k = len(rates)
    step = coverage * HARDWARE.step_seconds(batch, k) + (1 - coverage) * HARDWARE.step_seconds(batch, 0)
    steps = seconds / (step * slowness) * batch
    drafts = coverage * steps
    accepted = drafts * sum(rates)
    return Increments(
        seconds,
        {
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: drafts * k,
            Counter.ACCEPTED_TOKENS: accepted,
            Counter.DECODE_STEPS: steps,
            Counter.DECODE_STEP_SECONDS: batch * seconds,
            Counter.FIRST_TOKENS: 50.0,
            Counter.GENERATION_TOKENS: 50.0 + steps + accepted * (1 - truncated),
        },
        tuple(drafts * rate for rate in rates),
    )


def curve(ks: tuple[int, ...] = (5,), batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)) -> CostCurve:
    """What a calibration of that hardware finds."""
    return CostCurve.of(
        CostPoint(k, batch, HARDWARE.step_seconds(batch, k), HARDWARE.step_seconds(batch, 0))
        for k in ks
        for batch in batches
    )


def twins(*batches: int) -> PlainSpeed:
    """Twins without speculation on that hardware, at these batch sizes."""
    speed = PlainSpeed()
    for batch in batches:
        step = HARDWARE.step_seconds(batch, 0)
        for _ in range(200):
            speed.observe(
                Increments(
                    5.0, {Counter.DECODE_STEPS: batch * 5.0 / step, Counter.DECODE_STEP_SECONDS: batch * 5.0}, ()
                )
            )
    return speed


def by_kind(engines: list[Increments], basis: Basis) -> dict[SpeedupKind, Speedup]:
    return {speedup.kind: speedup for speedup in assess(engines, basis, min_drafts=30)}


ESTIMATED, CALIBRATED, MEASURED = SpeedupKind.ESTIMATED, SpeedupKind.CALIBRATED, SpeedupKind.MEASURED


def test_the_best_known_comes_first():
    found = assess([server()], Basis(curve=curve(), twins=twins(4)), min_drafts=30)
    assert [speedup.kind for speedup in found] == [MEASURED, CALIBRATED, ESTIMATED]
    assert "without speculation" in found[0].source
    assert found[2].source.startswith("at most; assumed:")


@pytest.mark.parametrize("batch", [1, 4, 16, 32])
@pytest.mark.parametrize("coverage", [1.0, 0.5])
@pytest.mark.parametrize("truncated", [0.0, 0.1])
def test_measured_and_calibrated_are_the_true_speedup(batch: int, coverage: float, truncated: float):
    engine = server(batch=batch, coverage=coverage, truncated=truncated)
    tokens = 1 + coverage * (1 - truncated) * 2.6
    step = coverage * HARDWARE.step_seconds(batch, 5) + (1 - coverage) * HARDWARE.step_seconds(batch, 0)
    true = tokens * HARDWARE.step_seconds(batch, 0) / step
    found = by_kind([engine], Basis(curve=curve(), twins=twins(batch)))
    assert found[MEASURED].value == pytest.approx(true)
    assert found[CALIBRATED].value == pytest.approx(true)


def test_load_past_the_break_even_shows_while_acceptance_stays():
    light, heavy = (by_kind([server(batch=batch)], Basis(curve=curve())) for batch in (1, 32))
    assert light[CALIBRATED].value > 2
    assert heavy[CALIBRATED].value < 1
    assert light[ESTIMATED].value == pytest.approx(heavy[ESTIMATED].value)


def test_what_no_formula_knows_shows_in_the_measured_speedup_alone():
    found = by_kind([server(slowness=2.0)], Basis(curve=curve(), twins=twins(4)))
    assert found[MEASURED].value == pytest.approx(found[CALIBRATED].value / 2)


def test_a_calibration_s_plain_steps_are_a_baseline_where_there_is_no_twin():
    found = by_kind([server()], Basis(curve=curve()))
    assert found[MEASURED].value == pytest.approx(found[CALIBRATED].value)
    assert "calibration" in found[MEASURED].source


def test_a_twin_at_another_batch_size_is_no_baseline():
    assert MEASURED not in by_kind([server(batch=4)], Basis(twins=twins(32)))


def test_above_the_largest_calibrated_batch_the_value_is_an_upper_limit():
    found = by_kind([server(batch=8)], Basis(curve=curve(batches=(1, 2, 4))))
    assert set(found) == {ESTIMATED}
    assert found[ESTIMATED].source.startswith("at most; step times were calibrated up to 4 requests at once, it is 8")
    assert found[ESTIMATED].value > HARDWARE.speedup(3.6, 8, 5)


def test_an_estimate_has_the_band_of_published_measurements():
    found = by_kind([server()], Basis())[ESTIMATED]
    assert (found.low, found.high) == band(found.value)
    assert found.value == pytest.approx(3.6 / 1.25)


def test_another_k_than_was_measured_is_not_calibrated():
    found = by_kind([server(rates=(0.8, 0.6, 0.5))], Basis(curve=curve(ks=(5,))))
    assert CALIBRATED not in found
    assert found[ESTIMATED].source.startswith("at most; assumed")


def scheduled(engine: Increments, share_of_tokens: float) -> Increments:
    """The same counts with fewer draft tokens: a schedule, or a method that finds fewer."""
    tokens = engine.counts[Counter.DRAFT_TOKENS] * share_of_tokens
    return replace(engine, counts={**engine.counts, Counter.DRAFT_TOKENS: tokens})


def test_a_mean_k_below_the_configured_one_costs_less_under_a_schedule_and_the_same_of_ngram():
    engine = scheduled(server(), 0.8)
    both = curve(ks=(3, 5))
    schedule = by_kind([engine], Basis(curve=both))[CALIBRATED]
    ngram = by_kind([engine], Basis(curve=both, drafts_vary=True))[CALIBRATED]
    assert schedule.value > ngram.value
    assert ngram.value == pytest.approx(by_kind([server()], Basis(curve=both))[CALIBRATED].value)


@pytest.mark.parametrize("basis", [Basis(), Basis(curve=curve(ks=(1, 3, 5)))], ids=["estimated", "calibrated"])
@pytest.mark.parametrize("rates", [(0.5, 0.1, 0.0, 0.0, 0.0), (0.9, 0.8, 0.7, 0.6, 0.5)])
def test_the_recommended_k_is_the_fastest_and_gives_what_it_says(basis: Basis, rates: tuple[float, ...]):
    found = assess([server(rates)], basis, min_drafts=30)[0]
    speeds = {k: assess([server(rates[:k])], basis, min_drafts=30)[0].value for k in range(1, 6) if k in (1, 3, 5)}
    assert found.recommended_k is not None
    assert found.recommended_speedup is not None
    assert found.recommended_speedup >= max(speeds.values()) - 1e-9
    if found.recommended_k in speeds:
        assert found.recommended_speedup == pytest.approx(speeds[found.recommended_k])


def test_nothing_is_recommended_beyond_the_positions_that_were_seen():
    found = by_kind([server(rates=(0.95, 0.94, 0.93))], Basis(curve=curve(ks=(3, 7))))[CALIBRATED]
    assert found.recommended_k == 3


def test_no_drafting_is_recommended_where_no_k_pays():
    found = by_kind([server(rates=(0.01, 0.0, 0.0, 0.0, 0.0))], Basis(curve=curve(ks=(1, 3, 5))))[CALIBRATED]
    assert (found.recommended_k, found.recommended_speedup) == (0, 1.0)


def test_with_twins_alone_today_s_k_is_all_that_is_known():
    slow = by_kind([server(slowness=4.0)], Basis(twins=twins(4)))[MEASURED]
    fast = by_kind([server()], Basis(twins=twins(4)))[MEASURED]
    assert (slow.recommended_k, slow.recommended_speedup) == (0, 1.0)
    assert fast.recommended_k == 5
    assert fast.recommended_speedup == pytest.approx(fast.value)


@given(
    rates=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7).map(lambda rates: sorted(rates, reverse=True)),
    coverage=st.floats(0.1, 1.0),
    truncated=st.floats(0.0, 0.5),
    batch=st.integers(1, 32),
)
def test_at_the_break_even_acceptance_speculation_is_worth_nothing(
    rates: list[float], coverage: float, truncated: float, batch: int
):
    basis = Basis(DraftCost(0.07, v=1.1))
    engine = server(tuple(rates), batch, coverage=coverage, truncated=truncated)
    found = by_kind([engine], basis)[ESTIMATED]
    assert found.break_even_acceptance is not None
    scale = found.break_even_acceptance * len(rates) / sum(rates)
    moved = server(tuple(rate * scale for rate in rates), batch, coverage=coverage, truncated=truncated)
    assert by_kind([moved], basis)[ESTIMATED].value == pytest.approx(1.0)


def test_the_break_even_acceptance_is_the_draft_s_cost_where_verifying_is_free():
    assert by_kind([server()], Basis(DraftCost(0.07)))[ESTIMATED].break_even_acceptance == pytest.approx(0.07)


def test_gains_and_losses_an_hour():
    gaining, losing = (by_kind([server(batch=batch)], Basis(curve=curve(), accelerators=4)) for batch in (4, 32))
    gain, loss = gaining[CALIBRATED], losing[CALIBRATED]
    assert gain.gpu_seconds_saved_per_hour == pytest.approx(3600 * 4 * (gain.value - 1))
    tokens = 3600 * 3.6 * 4 / HARDWARE.step_seconds(4, 5)
    assert gain.tokens_saved_per_hour == pytest.approx(tokens * (1 - 1 / gain.value))
    assert loss.tokens_saved_per_hour is not None
    assert loss.gpu_seconds_saved_per_hour is not None
    assert loss.tokens_saved_per_hour < 0
    assert loss.gpu_seconds_saved_per_hour < 0


def test_an_idle_server_saves_for_the_time_that_it_works_only():
    busy = server(batch=1)
    idle = replace(busy, seconds=busy.seconds * 10)
    kinds = [by_kind([engine], Basis(curve=curve()))[CALIBRATED] for engine in (busy, idle)]
    assert kinds[0].value == pytest.approx(kinds[1].value)
    assert kinds[1].gpu_seconds_saved_per_hour == pytest.approx(kinds[0].gpu_seconds_saved_per_hour / 10)


def test_two_engines_are_one_server_of_twice_the_requests():
    found = by_kind([server(batch=4), server(batch=4)], Basis(curve=curve(), twins=twins(4)))
    # A twin's engine is compared with an engine; a calibration measured the whole server.
    assert found[MEASURED].value == pytest.approx(HARDWARE.speedup(3.6, 4, 5))
    assert found[CALIBRATED].value == pytest.approx(3.6 * HARDWARE.step_seconds(8, 0) / HARDWARE.step_seconds(8, 5))


def test_an_idle_engine_makes_no_batch_smaller_and_saves_nothing():
    busy, idle = server(batch=4), server(batch=4, seconds=0.001)
    alone, both = (
        by_kind(engines, Basis(twins=twins(4)))[MEASURED] for engines in ([busy], [busy, replace(idle, seconds=300.0)])
    )
    assert both.value == pytest.approx(alone.value, rel=1e-3)
    assert both.gpu_seconds_saved_per_hour == pytest.approx((alone.gpu_seconds_saved_per_hour or 0) / 2, rel=1e-3)


def test_servers_together_are_plain_time_over_time():
    gain, loss = (by_kind([server(batch=batch)], Basis(curve=curve()))[CALIBRATED] for batch in (4, 32))
    both = pooled([(gain, 4.0), (loss, 32.0)])
    assert both is not None
    assert both.value == pytest.approx((4 * gain.value + 32 * loss.value) / 36)
    assert both.tokens_saved_per_hour == pytest.approx(
        (gain.tokens_saved_per_hour or 0) + (loss.tokens_saved_per_hour or 0)
    )
    assert pooled([]) is None


def test_servers_together_are_known_as_well_as_the_worst_known():
    found = by_kind([server()], Basis(curve=curve()))
    both = pooled([(found[CALIBRATED], 1.0), (found[ESTIMATED], 1.0)])
    assert both is not None
    assert both.kind is ESTIMATED


def test_the_interval_of_tokens_per_step_becomes_the_speedup_s():
    spread = Spread(
        {Quantity.TOKENS_PER_STEP: 4.0, Quantity.SECONDS_PER_TOKEN: 1e-6}, positions=(), degrees=40.0, life=1.0
    )
    found = by_kind([replace(server(), spread=spread)], Basis(curve=curve()))
    for speedup in (found[MEASURED], found[CALIBRATED]):
        assert speedup.low is not None
        assert speedup.high is not None
        assert speedup.low < speedup.value < speedup.high


@pytest.mark.parametrize("lacking", list(server().counts))
def test_without_one_of_the_counters_there_is_no_speedup(lacking: Counter):
    engine = server()
    counts = {counter: count for counter, count in engine.counts.items() if counter is not lacking}
    assert assess([replace(engine, counts=counts)], Basis(), min_drafts=30) == ()


@pytest.mark.parametrize("counts", [{}, {Counter.DRAFTS: 29.0}, {Counter.GENERATION_TOKENS: 0.0}])
def test_without_enough_there_is_no_speedup(counts: dict[Counter, float]):
    engine = server()
    members = [replace(engine, counts={**engine.counts, **counts})] if counts else []
    assert assess(members, Basis(), min_drafts=30) == ()


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("counter", list(server().counts))
def test_counts_that_are_no_finite_numbers_give_none_either(counter: Counter, value: float):
    engine = server()
    broken = replace(engine, counts={**engine.counts, counter: value})
    for speedup in assess([broken], Basis(curve=curve(), twins=twins(4)), min_drafts=30):
        assert math.isfinite(speedup.value)
        assert speedup.value > 0


@given(
    counts=st.fixed_dictionaries(
        {counter: st.one_of(st.floats(0, 1e308), st.floats(0, 1e4)) for counter in server().counts}
    ),
    positions=st.lists(st.floats(0, 1e308), max_size=6).map(tuple),
    seconds=st.floats(1e-3, 1e6),
)
def test_no_page_whatever_it_counts_breaks_the_arithmetic(
    counts: dict[Counter, float], positions: tuple[float, ...], seconds: float
):
    basis = Basis(curve=curve(ks=(1, 3, 5)), twins=twins(1, 4, 16))
    for speedup in assess([Increments(seconds, counts, positions)], basis, min_drafts=30):
        assert math.isfinite(speedup.value)
        assert speedup.value > 0
