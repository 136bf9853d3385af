"""The dashboard *server* below drafting: what users feel, load, engines, the V0 engine, and what the sidecar adds."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana
from specwatch.generate.dashboards.asks import (
    BY_SERVER,
    Asks,
    of_sidecar,
)
from specwatch.generate.dashboards.parts import (
    DRIFTED,
    KINDS,
    LOSS,
    LOW,
    trend,
)
from specwatch.generate.dashboards.scales import (
    NO_REQUEST_ENDED,
    NO_SERVER,
    NO_SIDECAR,
    NO_V0,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    REQUEST_RATE,
    REQUESTS,
    SCORE,
    SECONDS,
    SHARE,
    TIMES,
    TOKENS,
)
from specwatch.generate.grafana import HIGHEST, LOWEST, NEUTRAL, OUTPUT, WARN, Query, Scale, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.live_promql import SERVER


def serving(asks: Asks) -> Section:
    """Latency by token and by step."""
    tpot = trend(
        asks,
        "tpot",
        SECONDS,
        HIGHEST,
        "Mean TPOT: how fast do tokens reach users?",
        "Mean time per output token of requests that ended: decode time ÷ tokens. A mean moves with speculation, "
        "where percentiles from buckets stick to a bucket's edge.",
        NOTHING_DECODED,
    )
    itl = trend(
        asks,
        "step_latency",
        SECONDS,
        HIGHEST,
        "Mean ITL: how long does a decode step take?",
        "Mean time between the outputs of a request: one step, however many tokens it brought. It improves when "
        "speculation collapses, so judge by TPOT.",
        NOTHING_DECODED,
    )
    per_step = trend(
        asks,
        "tokens_per_step",
        Scale("suffix:tokens", low=1.0, decimals=2),
        LOWEST,
        "How many tokens does any decode step bring?",
        "Tokens generated ÷ decode steps, those without a draft included, by server. What lies between it and the "
        "acceptance length is undrafted steps and tokens behind a request's end.",
        NOTHING_DECODED,
    )
    return Section("What do users feel?", (Line(9, (tpot, itl, per_step)),))


def load(asks: Asks) -> Section:
    """Batch, queue, cache, and why requests end."""
    batch = trend(
        asks,
        "running_requests",
        REQUESTS,
        HIGHEST,
        "Batch size: how much is there to verify at once?",
        "Mean number of requests in the batch, by server. The larger it is, the less of the arithmetic is spare "
        "for verifying drafts.",
        NO_SERVER,
    )
    queue = trend(
        asks,
        "waiting_requests",
        REQUESTS,
        HIGHEST,
        "Is there a queue?",
        "Mean number of requests waiting for a place in the batch, by server. A server that queues gains from "
        "throughput, where wasted drafts hurt most.",
        NO_SERVER,
    )
    cache = grafana.time_series(
        Words(
            "How full is the KV cache?",
            "Share of the KV cache in use, the fullest engine of each server. A draft model keeps a cache of its own "
            "in the same memory, and a full one makes requests wait.",
            NO_SERVER,
        ),
        [Query(asks.cache_usage(SERVER), BY_SERVER)],
        SHARE,
        first=HIGHEST,
    )
    finished = asks.summed("vllm:request_success_total", ("finished_reason",))
    reasons = grafana.time_series(
        Words(
            "Why do requests end?",
            "Requests that ended per second, by reason: stop is the model's own end, length a limit. Tokens that were "
            "accepted behind a request's end are thrown away, so short answers gain less.",
            NO_REQUEST_ENDED,
        ),
        [Query(finished, "{{finished_reason}}")],
        REQUEST_RATE,
        styles={"stop": grafana.fixed(OUTPUT), "length": grafana.fixed(WARN), "abort": grafana.fixed(NEUTRAL)},
        stacked=True,
    )
    return Section("How busy is it?", (Line(8, (batch, queue)), Line(8, (cache, reasons))))


def engines(asks: Asks) -> Section:
    """Data-parallel engines beside one another."""

    def by_engine(name: str, scale: Scale, first: str, words: Words, alarm: float | None = None) -> Any:
        return grafana.time_series(words, [asks.engines(name)], scale, first=first, alarm=alarm)

    acceptance = by_engine(
        "acceptance_rate",
        SHARE,
        LOWEST,
        Words(
            "Do the engines of a server accept alike?",
            "Acceptance rate of every data-parallel engine, which the figures above pool. Engines share a server's "
            "traffic, so one that differs has a reason of its own.",
            NOTHING_DRAFTED,
        ),
        LOW,
    )
    batch = by_engine(
        "running_requests",
        REQUESTS,
        HIGHEST,
        Words(
            "Are the engines equally busy?",
            "Requests in the batch of every data-parallel engine. Speculation pays by the batch that is verified "
            "together, which is an engine's and not the server's.",
            NO_SERVER,
        ),
    )
    return Section("Do its engines differ?", (Line(8, (acceptance, batch)),))


def v0(asks: Asks) -> Section:
    """What the recording rules know of servers with the old engine."""
    acceptance = grafana.time_series(
        Words(
            "Acceptance of V0 servers since their start",
            "The old engine tells an average over its whole life only, and K is not on its page. So a change shows "
            "slowly, and it stands apart from the rates above.",
            NO_V0,
        ),
        [Query(asks.recorded_alone("acceptance_rate"), BY_SERVER)],
        SHARE,
        first=LOWEST,
        alarm=LOW,
    )
    length = grafana.time_series(
        Words(
            "Acceptance length of V0 servers since their start",
            "Mean tokens a drafted step brought over the server's whole life, bonus token included. Their latency and "
            "load are among the panels above, side by side with V1's.",
            NO_V0,
        ),
        [Query(asks.recorded_alone("acceptance_length"), BY_SERVER)],
        TOKENS,
        first=LOWEST,
    )
    return Section("Servers with the V0 engine, from the recording rules", (Line(6, (acceptance, length)),))


def sidecar() -> Section:
    """What the sidecar adds: speedup by kind, and drift."""
    band = {"low": "specwatch_speedup_low_ratio", "high": "specwatch_speedup_high_ratio"}
    kinds = grafana.time_series(
        Words(
            "Speedup, and how it is known (sidecar)",
            "Measured against a baseline, calibrated by a benchmark, or estimated from acceptance alone. The thin "
            "lines are how far off each may be.",
            NO_SIDECAR,
        ),
        [
            Query(of_sidecar("specwatch_speedup_ratio", by=("kind",)), "{{instance}} {{kind}}"),
            *(
                Query(of_sidecar(metric, by=("kind",)), f"{{{{instance}}}} {{{{kind}}}} {end}")
                for end, metric in band.items()
            ),
        ],
        TIMES,
        styles={
            **{f"/ {kind}( |$)/": grafana.fixed(colour) for kind, colour in KINDS.items()},
            "/ (low|high)$/": {"custom.lineWidth": 1, "custom.lineStyle": {"fill": "dash", "dash": [4, 6]}},
        },
        alarm=LOSS,
    )
    drift = grafana.time_series(
        Words(
            "Has acceptance left its own normal? (sidecar)",
            "The sidecar learns the server's usual acceptance and its spread, then adds up how far it falls below; 1 "
            "raises the alarm. The drift dashboard has what it compares with.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_drift_score"), BY_SERVER)],
        SCORE,
        first=HIGHEST,
        alarm=DRIFTED,
    )
    return Section("Needs the sidecar: speedup by kind, and drift", (Line(10, (kinds, drift)),))
