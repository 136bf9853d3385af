from __future__ import annotations

import pytest

from tests.support.lint import codes, findings, rule

ACCEPTED, DRAFTED = "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"
RATIO = f"rate({ACCEPTED}[5m]) / rate({DRAFTED}[5m])"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"avg({RATIO})", ["SW103"]),
        (f"avg by (model_name) (100 * {RATIO})", ["SW103"]),
        (f"avg(({RATIO}) > 0)", ["SW103"]),
        (f"avg(clamp_max({RATIO}, 1))", ["SW103"]),
        (f"avg_over_time(({RATIO})[1h:1m])", ["SW103"]),
        ("avg(instance:vllm_spec_decode_acceptance_rate:rate5m)", ["SW103"]),
        ("avg(instance:vllm_hits:ratio_rate5m)", ["SW103"]),
        (f"max({RATIO})", []),
        (f"sum(rate({ACCEPTED}[5m])) / sum(rate({DRAFTED}[5m]))", []),
        (f"avg(rate({ACCEPTED}[5m])) / avg(rate({DRAFTED}[5m]))", []),
        (f"avg(rate({ACCEPTED}[5m]) / 60)", []),
        ("avg(vllm:kv_cache_usage_perc)", []),
        ("avg(node_memory_used / node_memory_total)", []),
    ],
)
def test_means_of_ratios(expression: str, expected: list[str]):
    assert codes(rule(expression)) == expected


def test_a_ratio_is_known_through_the_rules_that_record_it():
    recorded = rule(RATIO, "record: a"), rule("a or b", "record: c")
    assert codes(*recorded, rule("avg(c)")) == ["SW103"]
    assert codes(rule("rate(vllm:generation_tokens_total[5m])", "record: a"), rule("avg(a)")) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f"{ACCEPTED} / {DRAFTED}", ["SW104"]),
        (f"sum by (instance) ({ACCEPTED}) / sum by (instance) ({DRAFTED}) * 100", ["SW104"]),
        ("vllm:e2e_request_latency_seconds_sum / vllm:e2e_request_latency_seconds_count", ["SW104"]),
        (f"{ACCEPTED} / rate({DRAFTED}[5m])", []),
        (f"({ACCEPTED} - {ACCEPTED} offset 5m) / ({DRAFTED} - {DRAFTED} offset 5m)", []),
        (f"{ACCEPTED} / count({DRAFTED})", []),
        (f"{ACCEPTED} / 1000", []),
        ("vllm:num_requests_running / vllm:num_requests_waiting", []),
        (f"last_over_time({ACCEPTED}[1h]) / last_over_time({DRAFTED}[1h])", []),
    ],
)
def test_ratios_since_start(expression: str, expected: list[str]):
    assert codes(rule(expression)) == expected


def test_a_counter_as_it_is_is_known_through_the_rule_that_records_it():
    recorded = rule(f"sum({ACCEPTED})", "record: a"), rule(f"sum({DRAFTED})", "record: b")
    assert codes(*recorded, rule("a / b")) == ["SW104"]
    assert codes(*recorded, rule("rate(a[5m]) / rate(b[5m])")) == []


def test_the_better_ratio_has_the_names_of_the_release():
    found = findings(rule("vllm:gpu_prefix_cache_hits_total / vllm:gpu_prefix_cache_queries_total"))
    instead = next(finding.instead for finding in found if finding.code.id == "SW104")
    assert instead.startswith("sum(rate(vllm:prefix_cache_hits_total[5m])) / sum(rate(vllm:prefix_cache_queries_total")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("rate(vllm:num_requests_running[5m])", ["SW102"]),
        ("irate((vllm:kv_cache_usage_perc)[5m:])", ["SW102"]),
        ("increase(vllm:prompt_tokens_created[5m])", ["SW102"]),
        ("rate(vllm:prompt_tokens_total[5m])", []),
        ("rate(vllm:time_to_first_token_seconds_bucket[5m])", []),
        ("deriv(vllm:num_requests_running[5m])", []),
        ("rate(my:gauge[5m])", []),
    ],
)
def test_rates_of_gauges(expression: str, expected: list[str]):
    assert codes(rule(expression)) == expected


@pytest.mark.parametrize(
    ("expression", "release", "expected"),
    [
        (f"rate({ACCEPTED}[5m])", "0.8.5", ["SW101"]),
        (f"sum(increase({DRAFTED}[5m]))", "0.7.3", ["SW101"]),
        (f'rate({ACCEPTED}{{engine!=""}}[5m])', "0.8.5", []),
        (f'rate({ACCEPTED}{{engine="0"}}[5m])', "0.8.5", []),
        (f'rate({ACCEPTED}{{engine=~".*"}}[5m])', "0.8.5", ["SW101"]),
        (f'rate({ACCEPTED}{{engine!="1"}}[5m])', "0.8.5", ["SW101"]),
        (f"rate({ACCEPTED}[5m])", "0.10.0", []),
        (f"max({ACCEPTED})", "0.8.5", []),
    ],
)
def test_rates_of_what_v0_corrupts(expression: str, release: str, expected: list[str]):
    assert codes(rule(expression), release=release) == expected


def test_on_v0_alone_its_efficiency_is_what_is_left():
    assert findings(rule(f"rate({ACCEPTED}[5m])"), release="0.7.3")[0].instead.startswith(
        "(vllm:spec_decode_efficiency"
    )
    assert 'engine!=""' in findings(rule(f"rate({ACCEPTED}[5m])"), release="0.9.2")[0].instead
