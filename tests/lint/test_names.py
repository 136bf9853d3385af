from __future__ import annotations

import pytest

from specwatch.vllm.features import NEWEST
from tests.support.lint import alert, codes, findings, rule

NOW = str(NEWEST)


@pytest.mark.parametrize(
    ("expression", "release", "expected"),
    [
        ("rate(vllm:spec_decode_num_drafts_total[5m])", NOW, []),
        ("rate(vllm:spec_decode_num_drafts_total[5m])", "0.8.4", ["SW002"]),
        ("vllm:iteration_tokens_total_sum", NOW, []),
        ("vllm:iteration_tokens_total", NOW, ["SW005"]),
        ("vllm:request_success_total", NOW, []),
        ("vllm:request_success", NOW, ["SW004"]),
        ("vllm:prompt_tokens_created", NOW, []),
        ("vllm:cache_config_info", NOW, []),
        ("vllm:gpu_prefix_cache_hits", NOW, ["SW001"]),
        ("vllm:time_per_output_token_seconds", NOW, ["SW001"]),
        ("vllm:num_requests_running_total", NOW, ["SW003"]),
        ("vllm:time_per_output_token_seconds_count", "0.11.2", []),
        ("vllm:time_per_output_token_seconds_count", "0.12.0", ["SW001"]),
        ("vllm:current_qps", NOW, []),
        ("node_cpu_seconds_total + vllm_router_requests_total", NOW, []),
        ("vllm_num_preemptions", NOW, ["SW006"]),
        ('{__name__="vllm:gpu_cache_usage_perc"}', NOW, ["SW001"]),
        ('{"vllm:gpu_cache_usage_perc"}', NOW, ["SW001"]),
        ('{__name__=~"vllm:.+", job="x"}', NOW, ["SW007"]),
        ('count({__name__=~"vllm:.+"})', NOW, []),
        ('{__name__=~"vllm:(prompt|generation)_tokens_total"}', NOW, []),
        ('{__name__=~".*_created"}', NOW, []),
        ('{__name__=~"(vllm:.*)*"}', NOW, []),
        ("absent(vllm:gpu_cache_usage_perc)", NOW, ["SW001"]),
    ],
)
def test_names_are_judged_by_the_release(expression: str, release: str, expected: list[str]):
    assert codes(rule(expression), release=release) == expected


def test_what_stands_in_for_a_missing_name_spares_it_in_either_order_and_only_there():
    assert codes(rule("vllm:gpu_cache_usage_perc or vllm:kv_cache_usage_perc")) == []
    assert codes(rule("max(vllm:kv_cache_usage_perc) or max(vllm:gpu_cache_usage_perc)")) == []
    assert codes(rule("vllm:gpu_cache_usage_perc or vllm:num_requests_swapped")) == ["SW001", "SW001"]
    assert codes(rule("vllm:gpu_cache_usage_perc and vllm:kv_cache_usage_perc")) == ["SW001"]
    assert codes(rule("vllm:made_up or vllm:kv_cache_usage_perc")) == ["SW003"]


def test_a_recorded_name_is_known_wherever_it_is_recorded():
    recording = rule("sum(vllm:num_requests_running)", "record: vllm:running:sum")
    reading = alert("vllm:running:sum > 10")
    assert codes(reading) == ["SW003"]
    assert codes(reading, recording) == []
    assert codes(recording, reading) == []


def test_what_is_recorded_from_a_missing_name_is_spared_where_it_only_stands_in():
    old = rule("max(vllm:gpu_cache_usage_perc)", "record: usage:old")
    standing_in = rule("max(vllm:kv_cache_usage_perc) or usage:old", "record: usage:any")
    assert codes(old, standing_in) == []
    assert codes(old) == ["SW001"]
    assert codes(old, standing_in, alert("usage:old > 0.9")) == ["SW001"]


def test_a_name_is_reported_once_an_expression_and_mended_everywhere_in_it():
    found = findings(rule("rate(vllm:num_preemptions[5m]) / (vllm:num_preemptions + vllm:num_preemptions_total)"))
    assert [finding.code.id for finding in found] == ["SW004"]
    assert len(found[0].fixes) == 2


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("vllm:num_preemption_total", "vllm:num_preemptions_total"),
        ("vllm:num_generation_tokens_total", "vllm:generation_tokens_total"),
        ("vllm:spec_decode_acceptance_rate", "a metric that the server's /metrics page shows"),
    ],
)
def test_a_name_that_never_was_is_answered_by_the_nearest_that_is(name: str, near: str):
    assert findings(rule(name))[0].instead == near


def test_an_older_name_is_proposed_where_the_release_has_that():
    found = findings(rule("vllm:kv_cache_usage_perc"), release="0.9.1")
    assert (found[0].code.id, found[0].instead) == ("SW002", "vllm:gpu_cache_usage_perc")
    assert [fix.new for fix in found[0].fixes] == ["vllm:gpu_cache_usage_perc"]


def test_what_only_v0_has_is_noted_where_the_release_can_run_either():
    assert codes(rule("vllm:spec_decode_efficiency"), release="0.9.2") == ["SW008"]
    assert codes(rule("vllm:spec_decode_efficiency"), release="0.7.3") == []
    assert codes(rule("vllm:num_requests_running"), release="0.9.2") == []


def test_names_in_what_is_no_promql_are_looked_at_all_the_same():
    assert codes(rule("rate(vllm:gpu_cache_usage_perc) default 0")) == ["SW901", "SW001"]
    assert codes(rule("rate(other[5m]) default 0")) == []


def test_names_of_hostile_length_are_answered():
    assert codes(rule("vllm:" + "a" * 30_000)) == ["SW003"]
