"""The dashboard *server*: one server in depth, or several side by side."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana
from specwatch.generate.dashboards.asks import (
    LAST_HOURS,
    Asks,
)
from specwatch.generate.dashboards.frame import Board, Settings, dashboard
from specwatch.generate.dashboards.parts import (
    IDLE,
    LOSS,
    LOW,
    SPEEDUP,
    marks,
    speedup_trend,
    trend,
)
from specwatch.generate.dashboards.scales import (
    NO_SERVER,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    RATE,
    REQUESTS,
    SHARE,
    TIMES,
    TOKENS,
)
from specwatch.generate.dashboards.server_load import engines, load, serving, sidecar, v0
from specwatch.generate.grafana import GOOD, LOWEST, NEUTRAL, OUTPUT, WARN, Query, Scale, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_table import Column, Name, Order, table


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
            serving(asks),
            load(asks),
            engines(asks),
            v0(asks),
            sidecar(),
        ),
        settings,
        annotations=marks(asks),
    )


ALWAYS = ("running_requests", "generation_throughput")
"""Figures that a server never ceases to have; of others a sparkline's last point may be from long ago."""


def _headline(asks: Asks) -> Section:
    def figure(name: str, scale: Scale, *words: str, steps: grafana.Steps = grafana.PLAIN) -> Any:
        return grafana.stat(Words(*words), asks.all(name), scale, steps, now=name not in ALWAYS)

    panels = (
        grafana.stat(
            Words(
                "Speedup: does it pay?",
                "Speed with speculation ÷ without, as measured where a sidecar knows it and else estimated, at most: "
                f"the least of the selected servers. Below {LOSS:g} speculation costs more than it gives.",
                NOTHING_DRAFTED,
            ),
            Query(f"min ({asks.worth()})", "speedup"),
            TIMES,
            grafana.bad_below(LOSS),
            now=True,
        ),
        figure(
            "acceptance_rate",
            SHARE,
            "Acceptance: does it fit?",
            "Accepted draft tokens ÷ draft tokens, over all that is selected. It falls when the traffic no longer "
            "looks like what the draft learned.",
            NOTHING_DRAFTED,
            steps=grafana.bad_below(LOW),
        ),
        figure(
            "acceptance_length",
            TOKENS,
            "Tokens a drafted step",
            "Mean tokens that a drafted step brings, the target's own bonus token included. Tokens per second follow "
            "it, but it is no speedup: the draft's time is not in it.",
            NOTHING_DRAFTED,
        ),
        figure(
            "draft_length",
            TOKENS,
            "Drafted: mean K",
            "Draft tokens ÷ drafts: what was really proposed. It lies below the configured K where a method finds "
            "nothing to propose, or a schedule lowers it.",
            NOTHING_DRAFTED,
        ),
        figure(
            "running_requests",
            REQUESTS,
            "How busy?",
            "Mean number of requests in the batch, all that is selected together. Speculation spends spare arithmetic, "
            "which large batches leave little of.",
            NO_SERVER,
        ),
        figure(
            "generation_throughput",
            RATE,
            "Generated: how fast?",
            "Tokens generated per second, all that is selected together. This is what speculation is meant to raise "
            "for the same machine.",
            NO_SERVER,
        ),
    )
    return Section("Is speculation paying here?", (Line(5, panels, widths=(5, 5, 4, 3, 3, 4)),))


def _acceptance(asks: Asks) -> Section:
    rate = trend(
        asks,
        "acceptance_rate",
        SHARE,
        LOWEST,
        f"Does acceptance stay above {LOW:.0%}?",
        "Accepted draft tokens ÷ draft tokens by server, the alert's threshold dashed. A cheap draft can pay below "
        "it, so read it beside the estimated speedup.",
        NOTHING_DRAFTED,
        alarm=LOW,
    )
    length = trend(
        asks,
        "acceptance_length",
        Scale("suffix:tokens", low=1.0, decimals=2),
        LOWEST,
        "How many tokens does a drafted step bring?",
        "Acceptance length: accepted draft tokens a step, and the target's own bonus token. Without speculation it "
        "would be 1, with everything accepted K + 1.",
        NOTHING_DRAFTED,
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
    usual = asks.over(LAST_HOURS).signal("position_acceptance")
    now = table(
        Words(
            "Which positions are worth drafting now?",
            "The same shares now, and over the last six hours; the first drafted token is at the top. A "
            f"position pays while its share exceeds what a draft token costs, {asks.cost.c:.1%} of a plain step.",
            NOTHING_DRAFTED,
        ),
        (Name("Position", "position", 90),),
        (
            Column("Now", position.expr, SHARE, width=None, as_bar=True, steps=grafana.bad_below(asks.cost.c)),
            Column("Last 6 h", usual, SHARE, width=None, as_bar=True, steps=grafana.Steps(NEUTRAL)),
        ),
        Order("Position"),
    )
    return Section("Which positions are worth drafting?", (Line(10, (trend, now)),))


def _drafting(asks: Asks) -> Section:
    length = trend(
        asks,
        "draft_length",
        TOKENS,
        LOWEST,
        "How long are the drafts?",
        "Mean K: draft tokens ÷ drafts by server. It lies below the configured K where n-gram or suffix drafting "
        "found nothing to propose, or a dynamic schedule lowered it.",
        NOTHING_DRAFTED,
    )
    coverage = trend(
        asks,
        "draft_coverage",
        SHARE,
        LOWEST,
        "How much of decoding is drafted?",
        "Share of decode steps that were drafted, by server, the alert's threshold dashed. It falls to 0 when a "
        "dynamic schedule says K = 0 at this batch size.",
        NOTHING_DECODED,
        alarm=IDLE,
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
