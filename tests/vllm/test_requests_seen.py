from __future__ import annotations

import pytest

from specwatch.vllm.metrics import PageError, read_page
from specwatch.vllm.requests_seen import HIT, MAX_BUCKETS, MISS, OTHER, Census, Feature
from tests.support.pages import page

PROMPTS = "vllm:request_prompt_tokens_bucket"
REASONS = "vllm:request_success_total"


def census(text: str) -> Census:
    return read_page(f'vllm:generation_tokens_total{{engine="0"}} 1\n{text}').engines["0"].requests


def test_a_captured_page_tells_lengths_reasons_and_cache_use():
    requests = page("vllm-0.32.0-v1-draft_model-json").engines["0"].requests
    assert {bound: count for bound, count in requests[Feature.PROMPT_LENGTH].items() if count} == {"10": 10}
    assert {bound: count for bound, count in requests[Feature.GENERATION_LENGTH].items() if count} == {
        "100": 1,
        "200": 9,
    }
    assert requests[Feature.FINISH_REASON]["length"] == 10
    assert requests[Feature.PREFIX_CACHE] == {HIT: 0, MISS: 87}


def test_the_cache_is_counted_once_where_a_page_has_its_old_and_its_new_name():
    text = "".join(
        f'vllm:{name}prefix_cache_{what}_total{{engine="0"}} {count}\n'
        for name in ("", "gpu_")
        for what, count in (("queries", 100), ("hits", 30))
    )
    assert census(text)[Feature.PREFIX_CACHE] == {HIT: 30, MISS: 70}


def test_the_old_engine_has_lengths_and_reasons_too():
    requests = page("vllm-0.8.5.post2-v0-draft_model").engines["0"].requests
    assert sum(requests[Feature.PROMPT_LENGTH].values()) == requests[Feature.FINISH_REASON]["length"] == 58


def test_models_behind_one_engine_are_added_up():
    text = "".join(
        f'{PROMPTS}{{engine="0",le="{le}",model_name="{model}"}} {count}\n'
        for model in ("base", "adapter")
        for le, count in (("10.0", 1), ("+Inf", 3))
    )
    assert census(text)[Feature.PROMPT_LENGTH] == {"10": 2, "inf": 4}


def test_reasons_that_no_release_has_are_one_category():
    text = "".join(f'{REASONS}{{engine="0",finished_reason="{i}"}} 1\n' for i in range(1000))
    assert census(text)[Feature.FINISH_REASON] == {OTHER: 1000}


def test_a_histogram_that_counts_backwards_or_holds_no_numbers_is_left_out():
    assert Feature.PROMPT_LENGTH not in census(f'{PROMPTS}{{engine="0",le="1"}} 5\n{PROMPTS}{{engine="0",le="2"}} 3\n')
    assert Feature.PROMPT_LENGTH not in census(f'{PROMPTS}{{engine="0",le="1"}} NaN\n')
    assert Feature.FINISH_REASON not in census(f'{REASONS}{{engine="0",finished_reason="stop"}} -1\n')


def test_more_buckets_than_vllm_has_or_bounds_that_are_no_numbers_are_refused():
    many = "".join(f'{PROMPTS}{{engine="0",le="{i}"}} 1\n' for i in range(MAX_BUCKETS + 1))
    with pytest.raises(PageError, match="buckets"):
        census(many)
    with pytest.raises(PageError, match="no number"):
        census(f'{PROMPTS}{{engine="0",le="x"}} 1\n')
