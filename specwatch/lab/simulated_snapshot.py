"""What ``read_page`` would make of a simulated V1 server's page, without writing and reading it.

A study of thousands of incidents reads hundreds of thousands of pages, and their text is all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from specwatch.lab.metrics_page import Histogram
from specwatch.lab.simulated_engine import Engine
from specwatch.vllm.metrics import Counter, Dialect, EngineSnapshot, Snapshot
from specwatch.vllm.requests_seen import HIT, MISS, REASONS, Census, Feature


def snapshot(model_name: str, process_start: float, engines: Sequence[Engine]) -> Snapshot:
    """The snapshot of one server."""
    speculates = any(engine.k for engine in engines)
    return Snapshot(
        dialect=Dialect.V1 if speculates else Dialect.OFF,
        model_name=model_name,
        process_start=process_start,
        engines={str(index): _engine(engine) for index, engine in enumerate(engines)},
    )


def _engine(engine: Engine) -> EngineSnapshot:
    tally, histograms = engine.tally, engine.histograms
    speculation = {
        Counter.DRAFTS: tally.drafts,
        Counter.DRAFT_TOKENS: tally.draft_tokens,
        Counter.ACCEPTED_TOKENS: tally.accepted_tokens,
    }
    counters = {
        **(speculation if engine.k else {}),
        Counter.GENERATION_TOKENS: tally.generated_tokens,
        Counter.FIRST_TOKENS: _count(histograms["first_token"]),
        Counter.DECODE_STEPS: _count(histograms["inter_token"]),
        Counter.DECODE_STEP_SECONDS: histograms["inter_token"].total,
        Counter.FINISHED_REQUESTS: _count(histograms["generation_tokens"]),
        Counter.FINISHED_TOKENS: histograms["generation_tokens"].total,
        Counter.FINISHED_DECODE_SECONDS: histograms["decode"].total,
    }
    return EngineSnapshot(
        counters={counter: float(value) for counter, value in counters.items()},
        gauges={
            Counter.RUNNING_SECONDS: float(engine.batch_size),
            Counter.WAITING_SECONDS: float(len(engine.queue)),
        },
        accepted_per_position=tuple(float(count) for count in tally.accepted_per_position),
        requests=_requests(engine),
    )


def _requests(engine: Engine) -> Census:
    return {
        Feature.PROMPT_LENGTH: _buckets(engine.histograms["prompt_tokens"]),
        Feature.GENERATION_LENGTH: _buckets(engine.histograms["generation_tokens"]),
        Feature.FINISH_REASON: {reason: float(engine.tally.finished[reason]) for reason in REASONS},
        Feature.PREFIX_CACHE: {HIT: 0.0, MISS: float(engine.tally.prompt_tokens)},
    }


def _buckets(histogram: Histogram) -> dict[str, float]:
    bounds = chain((f"{bound:g}" for bound in histogram.bounds), ["inf"])
    return {bound: float(count) for bound, count in zip(bounds, histogram.counts, strict=True)}


def _count(histogram: Histogram) -> int:
    return sum(histogram.counts)
