"""The dashboard *fleet* by model: what each gains, saves and serves, and whether its traffic drifted."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana
from specwatch.generate.dashboards.asks import (
    BY_MODEL,
    LAST_DAY,
    MODEL,
    Asks,
    of_sidecar,
)
from specwatch.generate.dashboards.parts import (
    DRIFTED,
    KINDS,
    LOSS,
    LOW,
    SPEEDUP,
    speedup_trend,
    tokens_gained,
)
from specwatch.generate.dashboards.scales import (
    COUNT,
    MANY_TOKENS,
    NO_SERVER,
    NO_SIDECAR,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    RATE,
    REQUESTS,
    SCORE,
    SECONDS,
    SHARE,
    TIMES,
)
from specwatch.generate.grafana import (
    BAD,
    GOOD,
    HIGHEST,
    LOWEST,
    NEUTRAL,
    OTHER,
    WARN,
    Query,
    Scale,
    Words,
)
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_table import Column, Name, Order, table


def models(asks: Asks) -> Section:
    """What speculation is worth on each model."""
    acceptance = grafana.time_series(
        Words(
            f"Does each model's acceptance stay above {LOW:.0%}?",
            "Accepted draft tokens ÷ draft tokens by model, its servers pooled, the alert's threshold dashed. A cheap "
            "draft can pay below it, so read it beside the estimated speedup.",
            NOTHING_DRAFTED,
        ),
        [asks.models("acceptance_rate")],
        SHARE,
        first=LOWEST,
        alarm=LOW,
    )
    speedup = speedup_trend(f"{SPEEDUP}, by model: above {LOSS:g}?", asks.models("estimated_speedup"), asks)
    each = asks.worth()
    spread = grafana.time_series(
        Words(
            "Do all servers gain alike?",
            "The smallest, the middle and the largest speedup of all selected servers, as measured where a sidecar "
            "knows it and else estimated, at most. The worst falling alone is a replica, all three the traffic.",
            NOTHING_DRAFTED,
        ),
        [
            Query(f"min ({each})", "worst server"),
            Query(f"quantile (0.5, {each})", "middle"),
            Query(f"max ({each})", "best server"),
        ],
        TIMES,
        styles={
            "worst server": grafana.fixed(WARN),
            "middle": grafana.fixed(GOOD),
            "best server": grafana.fixed(OTHER),
        },
        alarm=LOSS,
        least=grafana.COARSE,
    )
    return Section("Which models gain?", (Line(9, (speedup, acceptance, spread)),))


def saved(asks: Asks) -> Section:
    """Tokens and GPU-hours gained over plain decoding."""
    gained = tokens_gained(asks, "How many tokens a second does speculation gain?")
    by_model = table(
        Words(
            "What did each model gain in the last day?",
            "Tokens gained over plain decoding, estimated as above, beside all that were generated; the smallest gain "
            "first. What is negative was lost.",
            NOTHING_DRAFTED,
        ),
        (Name("Model", "model_name"), Name("Job", "job", 80)),
        (
            Column("Tokens gained", asks.tokens_gained(MODEL, LAST_DAY), MANY_TOKENS, grafana.bad_below(0), 120),
            Column("Generated", asks.generated(MODEL, LAST_DAY), MANY_TOKENS, width=100),
        ),
        Order("Tokens gained"),
    )
    return Section("What was saved or lost?", (Line(9, (gained, by_model)),))


def load(asks: Asks) -> Section:
    """What is asked of the fleet, and what users feel."""

    def trend(name: str, scale: Scale, words: Words) -> Any:
        return grafana.time_series(words, [asks.models(name)], scale, first=HIGHEST)

    panels = (
        trend(
            "generation_throughput",
            RATE,
            Words(
                "How many tokens a second reach users?",
                "Tokens generated per second, by model. This is what speculation is meant to raise for the same "
                "machines.",
                NO_SERVER,
            ),
        ),
        trend(
            "tpot",
            SECONDS,
            Words(
                "Mean TPOT: how long does a token take?",
                "Decode time ÷ tokens of the requests that ended, by model. It worsens when speculation collapses, "
                "while the time between steps improves.",
                NOTHING_DECODED,
            ),
        ),
        trend(
            "running_requests",
            REQUESTS,
            Words(
                "How many requests run?",
                "Requests in the batches of each model's servers, added up. Speculation spends spare arithmetic, which "
                "large batches leave little of.",
                NO_SERVER,
            ),
        ),
        trend(
            "waiting_requests",
            REQUESTS,
            Words(
                "How many requests wait?",
                "Requests that wait for a place in a batch, by model. A fleet that queues gains from throughput, where "
                "wasted drafts hurt most.",
                NO_SERVER,
            ),
        ),
    )
    return Section("How busy is the fleet?", (Line(8, panels[:2]), Line(8, panels[2:])))


def drifted() -> Section:
    """What the sidecar adds: drift, and speedup that is better known."""
    models = 'model_name=~"$model_name"'
    score = grafana.time_series(
        Words(
            "Has a model's traffic drifted? (sidecar)",
            "How far acceptance has left its own normal, all of a model's servers judged together; 1 raises the "
            "alarm. All of them moving together is the traffic, one alone the replica.",
            NO_SIDECAR,
        ),
        [Query(f"max by (model_name) (specwatch_model_drift_score{{{models}}})", BY_MODEL)],
        SCORE,
        first=HIGHEST,
        alarm=DRIFTED,
    )
    scores = of_sidecar("specwatch_drift_score")
    servers = grafana.time_series(
        Words(
            "How many servers drifted? (sidecar)",
            "Servers whose own score has reached the alarm, of those that the sidecar watches. The drift dashboard "
            "says since when and why.",
            NO_SIDECAR,
        ),
        [
            Query(f"sum ({scores} >= bool {DRIFTED:g})", "drifted"),
            Query(f"count ({scores})", "judged"),
        ],
        COUNT,
        styles={"drifted": grafana.fixed(BAD), "judged": grafana.fixed(NEUTRAL)},
    )
    kinds = grafana.time_series(
        Words(
            "Speedup by how it is known (sidecar)",
            "The middle server's speedup by kind: measured against a baseline, calibrated by a benchmark, or estimated "
            "from acceptance. Trust them in this order.",
            NO_SIDECAR,
        ),
        [Query(f"quantile by (kind) (0.5, {of_sidecar('specwatch_speedup_ratio', by=('kind',))})", "{{kind}}")],
        TIMES,
        styles={kind: grafana.fixed(colour) for kind, colour in KINDS.items()},
        alarm=LOSS,
    )
    return Section("Needs the sidecar: has the traffic drifted?", (Line(9, (score, servers, kinds)),))
