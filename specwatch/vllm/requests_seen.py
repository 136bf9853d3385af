"""What the requests looked like, from the histograms and counters of a page: for telling a change of traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import sub

from specwatch.vllm.page_layout import Places
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


@dataclass(frozen=True)
class CensusPlan:
    """Where the counts of one engine's census stand in a list of values."""

    lengths: tuple[tuple[Feature, tuple[str, ...], tuple[int, ...]], ...]
    """Of every histogram its categories, and the places of the counts up to their bounds."""
    reasons: tuple[tuple[str, int], ...]
    cache: tuple[int, int] | None
    """Places of queries and hits."""

    def census(self, values: Sequence[float]) -> Census:
        """The census; a histogram that counts backwards is left out, and so are more hits than queries."""
        census: dict[Feature, Mapping[str, float]] = {}
        for feature, bounds, places in self.lengths:
            reached = [values[place] for place in places]
            steps = [reached[0], *map(sub, reached[1:], reached)]
            if min(steps) >= 0:
                census[feature] = dict(zip(bounds, steps, strict=True))
        if self.reasons:
            census[Feature.FINISH_REASON] = {reason: values[place] for reason, place in self.reasons}
        if self.cache:
            queries, hits = (values[place] for place in self.cache)
            if hits <= queries:
                census[Feature.PREFIX_CACHE] = {HIT: hits, MISS: queries - hits}
        return census


def plan_requests(samples: Iterable[tuple[int, Sample]], places: Places) -> dict[str, CensusPlan]:
    """Each engine's plan, from samples of REQUEST_SERIES, none negative, and the places of their values.

    Series of several models (adapters) behind one engine are added up. PageError where a bucket's bound is no number
    or a histogram has more than MAX_BUCKETS buckets.
    """
    engines: dict[str, dict[str, dict[str, list[int]]]] = {}
    for place, sample in samples:
        group, category = _group(sample)
        categories = engines.setdefault(sample.labels.get("engine", "0"), {}).setdefault(group, {})
        categories.setdefault(category, []).append(place)
    return {engine: _plan(groups, places) for engine, groups in engines.items()}


def _plan(groups: Mapping[str, Mapping[str, Sequence[int]]], places: Places) -> CensusPlan:
    cache = groups.get("new") or groups.get("old") or {}
    reasons = groups.get(Feature.FINISH_REASON.value, {})
    return CensusPlan(
        lengths=tuple(
            (feature, *_buckets(groups[feature.value], places))
            for feature in _HISTOGRAMS.values()
            if feature.value in groups
        ),
        reasons=tuple((reason, places.of(parts)) for reason, parts in reasons.items()),
        cache=(places.of(cache["queries"]), places.of(cache["hits"])) if len(cache) == 2 else None,
    )


def _buckets(cumulative: Mapping[str, Sequence[int]], places: Places) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Bounds in their order, and the places of the counts up to them."""
    if len(cumulative) > MAX_BUCKETS:
        raise PageError(f"the page holds a histogram of {len(cumulative)} buckets, more than {MAX_BUCKETS}")
    bounds = sorted((_bound(text), places.of(parts)) for text, parts in cumulative.items())
    return tuple(f"{bound:g}" for bound, _ in bounds), tuple(place for _, place in bounds)


def _group(sample: Sample) -> tuple[str, str]:
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
