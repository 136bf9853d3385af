"""The dashboard *server*: one server in depth, or several side by side."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana
from specwatch.generate.dashboards.asks import (
    BY_SERVER,
    LAST_DAY,
    Asks,
    less,
    of_sidecar,
)
from specwatch.generate.dashboards.frame import Board, Settings, dashboard
from specwatch.generate.dashboards.parts import (
    DRIFTED,
    IDLE,
    LOSS,
    LOW,
    SPEEDUP,
    marks,
    speedup_trend,
    speedup_words,
)
from specwatch.generate.dashboards.scales import (
    NO_REQUEST_ENDED,
    NO_SERVER,
    NO_SIDECAR,
    NO_V0,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    POINTS,
    RATE,
    REQUEST_RATE,
    REQUESTS,
    SCORE,
    SECONDS,
    SHARE,
    TIMES,
    TOKENS,
)
from specwatch.generate.grafana import GOOD, HIGHEST, LOWEST, NEUTRAL, OUTPUT, WARN, Query, Scale, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_table import Column, Name, Order, table
from specwatch.generate.live_promql import SERVER


def server(settings: Settings) -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    asks = Asks(settings.cost)
    return dashboard(
        Board.SERVER,
        "One vLLM server in depth: what is drafted, what of it is accepted, and what users feel of it.",
        (
            _headline(asks),
            _acceptance(asks),
            _positions(asks),
            _drafting(asks),
            _serving(asks),
            _load(asks),
            _engines(asks),
            _v0(asks),
            _sidecar(),
        ),
        settings,
        annotations=marks(asks),
    )


def _headline(asks: Asks) -> Section:
    def figure(name: str, scale: Scale, title: str, description: str, empty: str) -> Any:
        return grafana.stat(Words(title, description, empty), asks.all(name), scale)

    panels = (
        grafana.stat(speedup_words(SPEEDUP, asks), asks.all("estimated_speedup"), TIMES, grafana.bad_below(LOSS)),
        grafana.stat(
            Words(
                "Acceptance rate: does it fit?",
                "Accepted draft tokens ÷ draft tokens, over all that is selected. It falls when the traffic no longer "
                "looks like what the draft learned.",
                NOTHING_DRAFTED,
            ),
            asks.all("acceptance_rate"),
            SHARE,
            grafana.bad_below(LOW),
        ),
        figure(
            "acceptance_length",
            TOKENS,
            "Acceptance length per step",
            "Mean tokens that a drafted step brings, the target's own bonus token included. Tokens per second follow "
            "it, but it is no speedup: the draft's time is not in it.",
            NOTHING_DRAFTED,
        ),
        figure(
            "draft_length",
            TOKENS,
            "Mean K",
            "Draft tokens ÷ drafts: what was really proposed. It lies below the configured K where a method finds "
            "nothing to propose, or a schedule lowers it.",
            NOTHING_DRAFTED,
        ),
        figure(
            "running_requests",
            REQUESTS,
            "Running requests: how busy?",
            "Mean number of requests in the batch, all that is selected together. Speculation spends spare arithmetic, "
            "which large batches leave little of.",
            NO_SERVER,
        ),
        figure(
            "generation_throughput",
            RATE,
            "Generated tokens: how fast?",
            "Tokens generated per second, all that is selected together. This is what speculation is meant to raise "
            "for the same machine.",
            NO_SERVER,
        ),
    )
    return Section("Is speculation paying here?", (Line(5, panels),))


def _trend(asks: Asks, name: str, scale: Scale, first: str, words: Words, alarm: float | None = None) -> Any:
    return grafana.time_series(words, [asks.servers(name)], scale, first=first, alarm=alarm)


def _acceptance(asks: Asks) -> Section:
    rate = _trend(
        asks,
        "acceptance_rate",
        SHARE,
        LOWEST,
        Words(
            f"Does acceptance stay above {LOW:.0%}?",
            "Accepted draft tokens ÷ draft tokens by server, the alert's threshold dashed. A cheap draft can pay below "
            "it, so read it beside the estimated speedup.",
            NOTHING_DRAFTED,
        ),
        LOW,
    )
    length = _trend(
        asks,
        "acceptance_length",
        Scale("suffix:tokens", low=1.0, decimals=2),
        LOWEST,
        Words(
            "How many tokens does a drafted step bring?",
            "Acceptance length: accepted draft tokens a step, and the target's own bonus token. Without speculation it "
            "would be 1, with everything accepted K + 1.",
            NOTHING_DRAFTED,
        ),
    )
    speedup = speedup_trend(f"{SPEEDUP}: does it stay above {LOSS:g}?", asks.servers("estimated_speedup"), asks)
    return Section("Does the draft fit the traffic?", (Line(9, (speedup, rate, length)),))


def _positions(asks: Asks) -> Section:
    position = Query(asks.signal("position_acceptance"), "position {{position}}")
    # Thinner with every position: order must not hang on telling shades apart.
    widths = {f"position {index}": {"custom.lineWidth": 5 - index} for index in range(4)}
    trend = grafana.time_series(
        Words(
            "At which position does the draft lose the thread?",
            "Share of drafts whose token at this position was accepted, divided by the drafts of the engines that have "
            "the position. Where the last positions are near 0, a smaller K drafts less for the same gain.",
            NOTHING_DRAFTED,
        ),
        [position],
        SHARE,
        shade=GOOD,
        styles=widths,
    )
    usual = asks.over(LAST_DAY).signal("position_acceptance")
    now = table(
        Words(
            "Which positions are worth drafting now?",
            "The same shares now, over the last day, and now less then; the first drafted token is at the top. A "
            f"position pays while its share exceeds what a draft token costs, {asks.cost.c:.1%} of a plain step.",
            NOTHING_DRAFTED,
        ),
        (Name("Position", "position", 90),),
        (
            Column("Now", position.expr, SHARE, width=None, as_bar=True, steps=grafana.bad_below(asks.cost.c)),
            Column("Last day", usual, SHARE, width=None, as_bar=True, steps=grafana.Steps(NEUTRAL)),
            Column("Change", less(position.expr, usual), POINTS, width=100),
        ),
        Order("Position"),
    )
    return Section("Which positions are worth drafting?", (Line(10, (trend, now)),))


def _drafting(asks: Asks) -> Section:
    length = _trend(
        asks,
        "draft_length",
        TOKENS,
        LOWEST,
        Words(
            "How long are the drafts?",
            "Mean K: draft tokens ÷ drafts by server. It lies below the configured K where n-gram or suffix drafting "
            "found nothing to propose, or a dynamic schedule lowered it.",
            NOTHING_DRAFTED,
        ),
    )
    coverage = _trend(
        asks,
        "draft_coverage",
        SHARE,
        LOWEST,
        Words(
            "How much of decoding is drafted?",
            "Share of decode steps that were drafted, by server, the alert's threshold dashed. It falls to 0 when a "
            "dynamic schedule says K = 0 at this batch size.",
            NOTHING_DECODED,
        ),
        IDLE,
    )
    flows = {
        "drafted": ("draft_throughput", NEUTRAL),
        "accepted": ("accepted_throughput", GOOD),
        "wasted": ("wasted_throughput", WARN),
        "generated": ("generation_throughput", OUTPUT),
    }
    tokens = grafana.time_series(
        Words(
            "How much of the drafting is wasted?",
            "Draft tokens proposed, accepted and rejected per second, beside all tokens generated. Rejected ones cost "
            "verification that a large batch would use for other requests.",
            NO_SERVER,
        ),
        [asks.all(name, legend) for legend, (name, _) in flows.items()],
        RATE,
        styles={legend: grafana.fixed(colour) for legend, (_, colour) in flows.items()},
    )
    return Section("How much is drafted, and what becomes of it?", (Line(9, (length, coverage, tokens)),))


def _serving(asks: Asks) -> Section:
    tpot = _trend(
        asks,
        "tpot",
        SECONDS,
        HIGHEST,
        Words(
            "Mean TPOT: how fast do tokens reach users?",
            "Mean time per output token of requests that ended: decode time ÷ tokens. A mean moves with speculation, "
            "where percentiles from buckets stick to a bucket's edge.",
            NOTHING_DECODED,
        ),
    )
    itl = _trend(
        asks,
        "step_latency",
        SECONDS,
        HIGHEST,
        Words(
            "Mean ITL: how long does a decode step take?",
            "Mean time between the outputs of a request: one step, however many tokens it brought. It improves when "
            "speculation collapses, so judge by TPOT.",
            NOTHING_DECODED,
        ),
    )
    per_step = _trend(
        asks,
        "tokens_per_step",
        Scale("suffix:tokens", low=1.0, decimals=2),
        LOWEST,
        Words(
            "How many tokens does any decode step bring?",
            "Tokens generated ÷ decode steps, those without a draft included, by server. What lies between it and the "
            "acceptance length is undrafted steps and tokens behind a request's end.",
            NOTHING_DECODED,
        ),
    )
    return Section("What do users feel?", (Line(9, (tpot, itl, per_step)),))


def _load(asks: Asks) -> Section:
    batch = _trend(
        asks,
        "running_requests",
        REQUESTS,
        HIGHEST,
        Words(
            "Batch size: how much is there to verify at once?",
            "Mean number of requests in the batch, by server. The larger it is, the less of the arithmetic is spare "
            "for verifying drafts.",
            NO_SERVER,
        ),
    )
    queue = _trend(
        asks,
        "waiting_requests",
        REQUESTS,
        HIGHEST,
        Words(
            "Is there a queue?",
            "Mean number of requests waiting for a place in the batch, by server. A server that queues gains from "
            "throughput, where wasted drafts hurt most.",
            NO_SERVER,
        ),
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
    return Section("How busy is it?", (Line(8, (batch, queue, cache, reasons)),))


def _engines(asks: Asks) -> Section:
    def trend(name: str, scale: Scale, first: str, words: Words, alarm: float | None = None) -> Any:
        return grafana.time_series(words, [asks.engines(name)], scale, first=first, alarm=alarm)

    acceptance = trend(
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
    batch = trend(
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


def _v0(asks: Asks) -> Section:
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
    return Section("Servers with the V0 engine, from the recording rules", (Line(7, (acceptance, length)),))


def _sidecar() -> Section:
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
        styles={"/ (low|high)$/": {"custom.lineWidth": 1, "custom.lineStyle": {"fill": "dash", "dash": [4, 6]}}},
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
    return Section("Needs the sidecar: speedup by kind, and drift", (Line(8, (kinds, drift)),))
