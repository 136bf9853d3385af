"""What the requests looked like, from the histograms and counters of a page: for telling a change of traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import pairwise

from specwatch.vllm.page_lines import PageError, Sample


class Feature(str, Enum):
    """A property of requests that vLLM counts by category."""

    PROMPT_LENGTH = "prompt_length"
    """Prompt tokens of requests that ended, by bucket."""
    GENERATION_LENGTH = "generation_length"
    """Generated tokens of requests that ended, by bucket."""
    FINISH_REASON = "finish_reason"
    """Requests that ended, by reason."""
    PREFIX_CACHE = "prefix_cache"
    """Prompt tokens looked up in the prefix cache: hit or miss."""


Census = Mapping[Feature, Mapping[str, float]]
"""Cumulative counts by feature and category. Categories of lengths are the upper bounds of their buckets, in order."""

HIT, MISS = "hit", "miss"
REASONS = ("stop", "length", "abort", "error", "repetition")
"""Finish reasons of vLLM 0.32; any other value of the label counts as OTHER."""
OTHER = "other"
MAX_BUCKETS = 64
"""More buckets than vLLM's lengths have: 1, 2, 5, 10 … up to the context, 22 of them at ten million tokens."""

_HISTOGRAMS = {
    "vllm:request_prompt_tokens_bucket": Feature.PROMPT_LENGTH,
    "vllm:request_generation_tokens_bucket": Feature.GENERATION_LENGTH,
}
_REASON_SERIES = "vllm:request_success_total"
# 0.9.2 renamed it and served both names for a while.
_CACHE_SERIES = {
    "vllm:prefix_cache_queries_total": ("new", "queries"),
    "vllm:prefix_cache_hits_total": ("new", "hits"),
    "vllm:gpu_prefix_cache_queries_total": ("old", "queries"),
    "vllm:gpu_prefix_cache_hits_total": ("old", "hits"),
}
REQUEST_SERIES = frozenset([*_HISTOGRAMS, _REASON_SERIES, *_CACHE_SERIES])
"""Sample names of what is read here."""


def read_requests(samples: Iterable[Sample]) -> dict[str, Census]:
    """Census of each engine, from samples of REQUEST_SERIES.

    Series of several models (adapters) behind one engine are added up. A histogram that counts backwards is left out.
    PageError where a bucket's bound is no number or a histogram has more than MAX_BUCKETS buckets.
    """
    engines: dict[str, dict[str, dict[str, float]]] = {}
    for sample in samples:
        group, category = _place(sample)
        categories = engines.setdefault(sample.labels.get("engine", "0"), {}).setdefault(group, {})
        categories[category] = categories.get(category, 0.0) + sample.value
    return {engine: _census(groups) for engine, groups in engines.items()}


def _census(groups: Mapping[str, Mapping[str, float]]) -> Census:
    census: dict[Feature, Mapping[str, float]] = {}
    for feature in _HISTOGRAMS.values():
        buckets = _buckets(groups.get(feature.value, {}))
        if buckets:
            census[feature] = buckets
    if Feature.FINISH_REASON.value in groups:
        census[Feature.FINISH_REASON] = groups[Feature.FINISH_REASON.value]
    cache = groups.get("new") or groups.get("old") or {}
    queries, hits = cache.get("queries"), cache.get("hits")
    if queries is not None and hits is not None and 0 <= hits <= queries:
        census[Feature.PREFIX_CACHE] = {HIT: hits, MISS: queries - hits}
    return census


def _buckets(cumulative: Mapping[str, float]) -> dict[str, float]:
    """Counts between bounds, from counts up to bounds; empty where these fall."""
    if not cumulative:
        return {}
    if len(cumulative) > MAX_BUCKETS:
        raise PageError(f"the page holds a histogram of {len(cumulative)} buckets, more than {MAX_BUCKETS}")
    reached = sorted((_bound(text), count) for text, count in cumulative.items())
    steps = [("", reached[0][1])] + [("", after - before) for (_, before), (_, after) in pairwise(reached)]
    if any(step < 0 for _, step in steps):
        return {}
    return {f"{bound:g}": step for (bound, _), (_, step) in zip(reached, steps, strict=True)}


def _place(sample: Sample) -> tuple[str, str]:
    """The group that a sample belongs to, a feature or one generation of the cache's names, and its category."""
    name, labels = sample.name, sample.labels
    if name in _HISTOGRAMS:
        return _HISTOGRAMS[name].value, labels.get("le", "")
    if name in _CACHE_SERIES:
        return _CACHE_SERIES[name]
    reason = labels.get("finished_reason", OTHER)
    return Feature.FINISH_REASON.value, reason if reason in REASONS else OTHER


def _bound(text: str) -> float:
    try:
        bound = float(text)
    except ValueError:
        bound = math.nan
    if math.isnan(bound):
        raise PageError(f"the page holds a histogram bucket up to {text[:20]!r}, which is no number")
    return bound
