from __future__ import annotations

import pytest

from specwatch.signals.catalogue import evaluate, signals
from specwatch.signals.correction import length_without_dummies, most_without_misses, rate_without_dummies
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter, Dialect
from tests.support.pages import FIXTURES, page

K = 5


def server(
    drafts: float = 1000.0, accepted: float = 2500.0, dummies: float = 0.0, undrafted: float = 0.0, cut: float = 0.0
) -> Increments:
    """What a server counts whose real drafts are these, with dummies booked, undrafted steps, and tokens cut off."""
    return Increments(
        60.0,
        {
            Counter.DRAFTS: drafts + dummies,
            Counter.DRAFT_TOKENS: (drafts + dummies) * K,
            Counter.ACCEPTED_TOKENS: accepted,
            Counter.DECODE_STEPS: drafts + undrafted,
            Counter.FIRST_TOKENS: 100.0,
            Counter.GENERATION_TOKENS: 100.0 + drafts + undrafted + accepted - cut,
        },
        tuple(accepted / K for _ in range(K)),
    )


def test_dummies_are_taken_out_where_every_step_is_drafted():
    told = [server(dummies=250.0)]
    assert evaluate(signals(), told)["acceptance_rate"] == pytest.approx(0.4)
    assert rate_without_dummies(told, 30) == pytest.approx(0.5)
    assert length_without_dummies(told, 30) == pytest.approx(3.5)


def test_the_run_on_a_real_server_with_five_drafts_for_four_steps_had_one_dummy():
    told = [server(drafts=4.0, accepted=8.0, dummies=1.0)]
    assert rate_without_dummies(told, 1) == pytest.approx(8 / 20)


def test_without_dummies_the_corrected_value_is_the_raw_one():
    values = evaluate(signals(), [server()])
    assert values["acceptance_rate_without_dummies"] == values["acceptance_rate"]
    assert values["acceptance_length_without_dummies"] == values["acceptance_length"]


def test_dummies_that_hide_behind_undrafted_steps_are_corrected_too_little_and_never_too_much():
    told = [server(dummies=250.0, undrafted=100.0)]
    assert rate_without_dummies(told, 30) == pytest.approx(0.4 * 1250 / 1100)
    assert 0.4 < (rate_without_dummies(told, 30) or 0) < 0.5
    assert rate_without_dummies([server(dummies=100.0, undrafted=300.0)], 30) == pytest.approx(2500 / 5500)


def test_prefills_alone_say_nothing_of_drafts():
    assert rate_without_dummies([server(drafts=40.0, accepted=0.0, dummies=1000.0)], 30) is None


def test_engines_are_pooled_before_they_are_corrected():
    told = [server(dummies=250.0), server(drafts=500.0, accepted=500.0)]
    assert rate_without_dummies(told, 30) == pytest.approx(3000 / (1750 * K) * 1750 / 1500)


def test_few_drafts_and_missing_counters_have_no_correction():
    assert rate_without_dummies([server(drafts=20.0)], 30) is None
    assert rate_without_dummies([], 30) is None
    assert length_without_dummies([Increments(60.0, {Counter.DRAFT_TOKENS: 500.0})], 30) is None


def test_what_was_cut_off_is_told_apart_from_what_was_delivered():
    values = evaluate(signals(), [server(cut=500.0, undrafted=200.0)])
    assert values["acceptance_rate"] == pytest.approx(0.5)
    assert values["delivered_acceptance_rate"] == pytest.approx(0.4)
    assert values["truncated_share"] == pytest.approx(0.2)


def test_dummies_do_not_look_like_tokens_that_were_cut_off():
    assert evaluate(signals(), [server(dummies=250.0)])["truncated_share"] == pytest.approx(0.0)


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("*-v1-*.txt")))
def test_on_captured_pages_between_nothing_and_a_few_accepted_tokens_were_cut_off(name: str):
    counts = page(name).engines["0"].counters
    if not counts.get(Counter.ACCEPTED_TOKENS):
        assert page(name).dialect in (Dialect.OFF, Dialect.V1)
        return
    cut = (
        counts[Counter.ACCEPTED_TOKENS]
        + counts[Counter.DECODE_STEPS]
        + counts[Counter.FIRST_TOKENS]
        - counts[Counter.GENERATION_TOKENS]
    )
    assert 0 <= cut <= 61


def test_misses_that_are_booked_as_drafts_leave_an_upper_limit_only():
    """Of 1000 booked drafts 400 were misses; of the 600 real ones 450 had their first token accepted."""
    counts = {
        Counter.DRAFTS: 1000.0,
        Counter.DRAFT_TOKENS: 5000.0,
        Counter.ACCEPTED_TOKENS: 1200.0,
        Counter.DECODE_STEPS: 1000.0,
    }
    told = Increments(60.0, counts, (450.0, 300.0, 200.0, 150.0, 100.0))
    raw, real, most = 1200 / 5000, 1200 / 3000, most_without_misses([told])
    assert most == pytest.approx(1200 / 2250)
    assert raw < real < most


def test_without_an_accepted_token_misses_leave_no_limit():
    assert most_without_misses([server(accepted=0.0)]) is None
    assert most_without_misses([]) is None
