from __future__ import annotations

import pytest

from specwatch.signals.catalogue import evaluate, signal, signals
from specwatch.signals.formula import PerPosition, Ratio, conditional_rates
from specwatch.signals.window import Increments, add_up
from specwatch.vllm.metrics import Counter
from tests.support.pages import between, page


def counts(drafts: float, draft_tokens: float, accepted: float, positions: tuple[float, ...] = ()) -> Increments:
    return Increments(
        seconds=60.0,
        counts={
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: draft_tokens,
            Counter.ACCEPTED_TOKENS: accepted,
        },
        accepted_per_position=positions,
    )


# Counters published by others, each with what its source says of them.
SEEN_IN_THE_WILD = [
    pytest.param(counts(59, 295, 262), 5, 0.888, 5.44, id="vLLM pull request 24127"),
    pytest.param(counts(129, 387, 150), 3, 0.388, 2.16, id="vLLM issue 19254"),
    pytest.param(counts(87, 259, 167), 2.977, 0.645, 2.92, id="short drafts of another engine"),
    pytest.param(counts(43, 129, 10), 3, 0.0775, 1.2326, id="vLLM's per-request sample"),
]


@pytest.mark.parametrize(("increments", "mean_k", "rate", "length"), SEEN_IN_THE_WILD)
def test_published_counters_give_the_published_figures(
    increments: Increments, mean_k: float, rate: float, length: float
):
    values = evaluate(signals(), [increments])
    assert values["draft_length"] == pytest.approx(mean_k, abs=1e-3)
    assert values["acceptance_rate"] == pytest.approx(rate, abs=1e-3)
    assert values["acceptance_length"] == pytest.approx(length, abs=5e-3)


def test_positions_of_vllm_pull_request_24127():
    positions = tuple(round(rate * 59) for rate in (0.983, 0.949, 0.915, 0.881, 0.712))
    values = evaluate(signals(), [counts(59, 295, 262, positions)])
    assert values["position_acceptance"] == pytest.approx((0.983, 0.949, 0.915, 0.881, 0.712), abs=1e-3)
    assert sum(positions) == 262


def test_positions_of_vllm_issue_19254():
    positions = tuple(round(rate * 129) for rate in (0.543, 0.357, 0.264))
    values = evaluate(signals(), [counts(129, 387, 150, positions)])
    assert values["position_acceptance"] == pytest.approx((0.543, 0.357, 0.264), abs=5e-3)
    assert sum(positions) == pytest.approx(150, abs=1)


def test_the_short_run_of_vllm_ascend_issue_13664_has_a_rate_and_too_few_drafts_for_a_length():
    values = evaluate(signals(), [counts(23, 161, 44)])
    assert values["acceptance_rate"] == pytest.approx(0.273, abs=1e-3)
    assert values["acceptance_length"] is None
    assert Ratio({Counter.ACCEPTED_TOKENS: 1.0}, {Counter.DRAFTS: 1.0}, offset=1.0).over([counts(23, 161, 44)]) == (
        pytest.approx(2.91, abs=5e-3)
    )


def test_the_histogram_of_vllm_s_per_request_sample_gives_its_positions():
    accepted_in_draft = (39, 1, 0, 3)
    positions = tuple(float(sum(accepted_in_draft[i:])) for i in range(1, 4))
    values = evaluate(signals(), [counts(43, 129, 10, positions)])
    assert values["position_acceptance"] == pytest.approx((4 / 43, 3 / 43, 3 / 43))
    assert values["conditional_acceptance"] == pytest.approx((4 / 43, 3 / 4, 1.0))
    assert sum(positions) == 10


def test_the_captured_spanish_traffic_is_not_hidden_by_the_json_before_it():
    increments = between("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
    values = evaluate(signals(), [increments])
    assert values["acceptance_rate"] == pytest.approx(0.015, abs=5e-4)
    assert values["acceptance_length"] == pytest.approx(1.075, abs=5e-4)
    assert values["draft_coverage"] == 1.0


def test_a_dynamic_schedule_shows_as_coverage_while_acceptance_stays():
    increments = between("vllm-0.32.0-v1-dynamic-conc1", "vllm-0.32.0-v1-dynamic-conc6")
    coverage = signal("draft_coverage").formula.over([increments])
    assert isinstance(coverage, float)
    assert coverage < 0.3


@pytest.mark.parametrize("name", ["vllm-0.32.0-v1-draft_model", "vllm-0.20.2-v1-draft_model"])
def test_identities_hold_between_captured_pages(name: str):
    increments = between(f"{name}-before", f"{name}-json")
    values = evaluate(signals(), [increments])
    positions = values["position_acceptance"]
    assert isinstance(positions, tuple)
    assert values["acceptance_length"] == pytest.approx(1 + sum(rate or 0.0 for rate in positions))
    accepted, drafts = increments.counts[Counter.ACCEPTED_TOKENS], increments.counts[Counter.DRAFTS]
    assert accepted == sum(increments.accepted_per_position)
    assert values["tokens_per_step"] == pytest.approx(1 + accepted / drafts, rel=0.02)


@pytest.mark.parametrize("name", ["vllm-0.32.0-v1-draft_model", "vllm-0.20.2-v1-draft_model"])
def test_decoding_requests_agree_with_little_s_law_on_captured_pages(name: str):
    increments = between(f"{name}-before", f"{name}-json", seconds=30.0)
    values = evaluate(signals(), [increments])
    assert values["decoding_requests"] == pytest.approx(increments.counts[Counter.DECODE_STEP_SECONDS] / 30.0)
    # All of its requests have ended, so that what is told live is what they tell at their end.
    assert values["token_latency"] == pytest.approx(values["tpot"], rel=0.02)


def test_v0_has_no_tokens_per_step_for_it_counts_one_a_step_whatever_came():
    since_start = Increments(60.0, page("vllm-0.8.5.post2-v0-draft_model-json3").engines["0"].counters)
    assert since_start.counts[Counter.FINISHED_TOKENS] > 5 * since_start.counts[Counter.GENERATION_TOKENS]
    values = evaluate(signals(), [since_start])
    assert values["tokens_per_step"] is None
    assert values["token_latency"] is None
    assert values["tpot"] is not None


def test_pooling_divides_sums_and_never_averages_ratios():
    busy, quiet = counts(1000, 5000, 4500), counts(100, 500, 50)
    rate = signal("acceptance_rate").formula.over([busy, quiet])
    assert rate == (4500 + 50) / (5000 + 500)
    assert rate == signal("acceptance_rate").formula.over([add_up([busy, quiet])])


def test_an_engine_without_a_drafts_counter_stays_out_of_the_length_but_not_of_the_rate():
    full = counts(100, 500, 250)
    minimal = Increments(60.0, {Counter.DRAFT_TOKENS: 500.0, Counter.ACCEPTED_TOKENS: 0.0})
    values = evaluate(signals(), [full, minimal])
    assert values["acceptance_length"] == 3.5
    assert values["acceptance_rate"] == 0.25


def test_a_position_divides_by_the_drafts_of_engines_that_have_it():
    short, long = counts(100, 300, 0, (90, 80, 70)), counts(50, 250, 0, (45, 40, 35, 30, 25))
    rates = PerPosition(at_least=1).over([short, long])
    assert rates == (135 / 150, 120 / 150, 105 / 150, 30 / 50, 25 / 50)


def test_no_traffic_gives_no_value_and_never_zero():
    values = evaluate(signals(), [counts(0, 0, 0, (0, 0))])
    assert values["acceptance_rate"] is None
    assert values["acceptance_length"] is None
    assert values["estimated_speedup"] is None
    assert values["position_acceptance"] == (None, None)


def test_few_drafts_give_no_value():
    assert signal("acceptance_length").formula.over([counts(29, 145, 100)]) is None
    assert signal("acceptance_length").formula.over([counts(30, 150, 90)]) == 4.0


def test_a_server_that_does_not_export_a_counter_has_no_value():
    assert Ratio({Counter.ACCEPTED_TOKENS: 1.0}).over([Increments(10.0)]) is None


def test_rates_are_per_second_of_what_was_seen():
    throughput = Ratio({Counter.DRAFT_TOKENS: 1.0, Counter.ACCEPTED_TOKENS: -1.0})
    assert throughput.over([counts(10, 50, 20), counts(10, 50, 50)]) == 0.5


def test_conditional_rates_tell_where_acceptance_breaks():
    assert conditional_rates((0.8, 0.4, 0.4)) == pytest.approx((0.8, 0.5, 1.0))
    assert conditional_rates((0.0, 0.0)) == (0.0, None)
    assert conditional_rates((None, 0.5)) == (None, None)


@pytest.mark.parametrize("count", [float("inf"), float("nan")])
def test_what_is_no_finite_number_has_no_value(count: float):
    values = evaluate(signals(), [counts(count, count, count, (count, count))] * 2)
    known = {value for value in values.values() if not isinstance(value, tuple)}
    assert {float("inf"), float("-inf")}.isdisjoint(known)
    assert all(value == value for value in known)
    assert values["draft_throughput"] is None
    assert values["position_acceptance"] == (None, None)


def test_a_share_that_counters_contradict_has_no_value():
    share = Ratio({Counter.ACCEPTED_TOKENS: 1.0}, {Counter.DRAFT_TOKENS: 1.0}, is_share=True)
    for accepted, value in ((0.0, 0.0), (50.0, 0.5), (100.0, 1.0), (101.0, None), (-1.0, None)):
        counts = {Counter.ACCEPTED_TOKENS: accepted, Counter.DRAFT_TOKENS: 100.0}
        assert share.over([Increments(30.0, counts)]) == value


def test_a_position_that_is_accepted_more_often_than_drafted_has_no_value():
    counts = {Counter.DRAFTS: 100.0}
    assert PerPosition(at_least=30).over([Increments(30.0, counts, (101.0, 50.0, -1.0))]) == (None, 0.5, None)
