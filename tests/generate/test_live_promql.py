from __future__ import annotations

import re

import pytest

from specwatch.generate.live_promql import FLEET, SERVER, Live
from specwatch.signals.catalogue import signal, signals
from specwatch.vllm.metrics import Counter

LIVE = Live('job=~"$job"', "$__rate_interval")


def flat(expr: str) -> str:
    """The expression on one line, without the space inside parentheses."""
    return re.sub(r"\( | (?=\))", lambda match: match[0].strip(), re.sub(r"\s+", " ", expr))


def test_a_counter_is_read_under_the_name_that_the_release_gives_it():
    assert LIVE.rate(Counter.DECODE_STEPS) == (
        '(rate(vllm:inter_token_latency_seconds_count{job=~"$job"}[$__rate_interval])'
        ' or rate(vllm:time_per_output_token_seconds_count{job=~"$job"}[$__rate_interval]))'
    )


def test_speculation_is_read_from_v1_and_gauges_are_averaged_over_time():
    assert LIVE.rate(Counter.DRAFTS) == (
        'rate(vllm:spec_decode_num_drafts_total{job=~"$job", engine!=""}[$__rate_interval])'
    )
    assert LIVE.rate(Counter.RUNNING_SECONDS) == (
        'avg_over_time(vllm:num_requests_running{job=~"$job"}[$__rate_interval])'
    )


def test_acceptance_is_a_quotient_of_sums_where_enough_was_drafted():
    accepted, drafted = (LIVE.rate(counter) for counter in (Counter.ACCEPTED_TOKENS, Counter.DRAFT_TOKENS))
    assert flat(LIVE.signal(signal("acceptance_rate"))) == (
        f"(sum by (job, instance, model_name) ({accepted})) / (sum by (job, instance, model_name) ({drafted})) "
        f"and sum by (job, instance, model_name) ({drafted.replace('rate(', 'increase(', 1)}) >= 30"
    )


def test_pooling_a_fleet_leaves_out_servers_that_lack_one_of_the_counters():
    expr = flat(LIVE.signal(signal("draft_coverage"), FLEET))
    drafts, steps = LIVE.rate(Counter.DRAFTS), LIVE.rate(Counter.DECODE_STEPS)
    assert f"sum by () ({steps} and {drafts})" in expr
    assert f"sum by () ({drafts} and {steps})" in expr


def test_one_servers_engines_need_no_such_care():
    assert " and rate(" not in flat(LIVE.signal(signal("draft_coverage"), SERVER))


def test_a_position_divides_by_the_drafts_of_engines_that_have_it():
    expr = flat(LIVE.signal(signal("position_acceptance"), FLEET))
    accepted = 'rate(vllm:spec_decode_num_accepted_tokens_per_pos_total{job=~"$job", engine!=""}[$__rate_interval])'
    drafts = f"0 * {accepted} + ignoring (position) group_left () {LIVE.rate(Counter.DRAFTS)}"
    assert expr.startswith(f"sum by (position) ({accepted}) / sum by (position) ({drafts}) and")
    assert expr.endswith(">= 30")


@pytest.mark.parametrize("entry", [entry for entry in signals() if entry.in_promql], ids=lambda entry: entry.name)
@pytest.mark.parametrize("labels", [FLEET, SERVER], ids=["fleet", "server"])
def test_every_series_is_selected_and_every_window_is_the_given_one(entry, labels):
    expr = LIVE.signal(entry, labels)
    assert expr.count("vllm:") == expr.count('{job=~"$job"') == expr.count("[$__rate_interval]")


@pytest.mark.parametrize("entry", [entry for entry in signals() if not entry.in_promql], ids=lambda entry: entry.name)
def test_what_python_alone_tells_is_not_asked_for(entry):
    with pytest.raises(ValueError, match=f"{entry.name} has no PromQL"):
        LIVE.signal(entry)
