"""The dashboard *fleet*: is speculation paying, where not, what changed. Readable with 5 servers and with 200."""

from __future__ import annotations

from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.generate import grafana, grafana_dashboard
from specwatch.generate.dashboards.asks import (
    BY_MODEL,
    DAY_BEFORE,
    LAST_DAY,
    MODEL,
    Asks,
    beside_servers,
    less,
    of_sidecar,
)
from specwatch.generate.dashboards.frame import Board, Settings, dashboard, link_to_server
from specwatch.generate.dashboards.parts import (
    DRIFTED,
    LOSS,
    LOW,
    SPEEDUP,
    marks,
    speedup_trend,
    speedup_words,
)
from specwatch.generate.dashboards.scales import (
    COUNT,
    GAIN,
    HOURS,
    MANY_TOKENS,
    NO_ALERT,
    NO_SERVER,
    NO_SIDECAR,
    NOTHING_DECODED,
    NOTHING_DRAFTED,
    POINTS,
    RATE,
    REQUESTS,
    SCORE,
    SECONDS,
    SHARE,
    TIMES,
    TOKENS,
)
from specwatch.generate.grafana import BAD, GONE, GOOD, HIGHEST, LOWEST, NEUTRAL, OTHER, WARN, Query, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_table import NARROW, WIDE, Column, Name, Order, table
from specwatch.generate.live_promql import FLEET, SERVER

STATES = {
    "paying": GOOD,
    "losing": BAD,
    "too few drafts": NEUTRAL,
    "V0": OTHER,
    "no speculation": WARN,
    "down": GONE,
}
"""What a server may be doing, and its colour."""

SEVERITIES = {Severity.PAGE: (2.0, BAD), Severity.TICKET: (1.0, WARN)}
"""The value that stands for a severity, and its colour."""


def fleet(settings: Settings) -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    asks = Asks(settings.cost)
    return dashboard(
        Board.FLEET,
        "Is speculative decoding paying on this fleet, where is it not, and what changed?",
        (
            _headline(asks),
            _where(asks, settings),
            _models(asks),
            _saved(asks),
            _load(asks),
            _drift(),
        ),
        settings,
        annotations=marks(asks),
        boxes=(grafana_dashboard.box_variable("gpus", "GPUs per engine", "1"),),
    )


def _headline(asks: Asks) -> Section:
    states = asks.servers_in_state()
    saved_hours = f"{asks.hours_saved(FLEET)} * $gpus"
    panels = (
        grafana.stat(speedup_words(SPEEDUP, asks), asks.all("estimated_speedup"), TIMES, grafana.bad_below(LOSS)),
        grafana.stat(
            Words(
                "Acceptance: does the draft fit?",
                "Accepted draft tokens ÷ draft tokens, over all that is selected. It falls when the traffic no longer "
                "looks like what the draft learned.",
                NOTHING_DRAFTED,
            ),
            asks.all("acceptance_rate"),
            SHARE,
            grafana.bad_below(LOW),
        ),
        grafana.stat(
            Words(
                "Servers that lose",
                f"Servers whose estimated speedup is below {LOSS:g} now, so that users would wait less without "
                "speculation. The table below has them first.",
                NO_SERVER,
            ),
            Query(states["losing"], "losing"),
            COUNT,
            grafana.bad_from(1),
        ),
        grafana.stat(
            Words(
                "Alerts that fire now",
                "Alerts of specwatch about the selected servers, pages and tickets together, each server once. Which "
                "ones and since when is said below.",
                NO_SERVER,
            ),
            Query(f"count ({asks.firing()}) or vector(0)", "firing"),
            COUNT,
            grafana.warn_from(1),
        ),
        grafana.stat(
            Words(
                "Tokens gained in the last day",
                "Tokens beyond those that plain decoding would have made in the same time: accepted ones less what "
                f"drafting cost at {asks.cost.c:.1%} of a plain step each. Below 0 speculation lost tokens.",
                NOTHING_DRAFTED,
            ),
            Query(asks.tokens_gained(FLEET, LAST_DAY), "gained"),
            MANY_TOKENS,
            grafana.bad_below(0),
        ),
        grafana.stat(
            Words(
                "GPU-hours saved in the last day",
                "Hours with requests × (estimated speedup - 1) × coverage × GPUs per engine, which the box at the top "
                "says. Plain decoding would have needed these hours more, or fewer where it is below 0.",
                NOTHING_DRAFTED,
            ),
            Query(saved_hours, "saved"),
            HOURS,
            grafana.bad_below(0),
        ),
    )
    return Section("Is speculation paying?", (Line(5, panels),))


def _where(asks: Asks, settings: Settings) -> Section:
    servers = table(
        Words(
            "Which servers gain least?",
            "Every server now: those that draft too little to say, marked by a dash, then from the smallest estimated "
            "speedup upwards. A click on a server opens it in depth.",
            NO_SERVER,
        ),
        (
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Job", "job", NARROW),
        ),
        _columns(asks),
        Order(SPEEDUP),
    )
    states = asks.servers_in_state()
    doing = grafana.time_series(
        Words(
            "How many servers pay, and how many do not?",
            "Servers by what speculation does on them, on top of one another. A rising edge of one colour everywhere "
            "is the traffic, a thin band is a replica.",
            NO_SERVER,
        ),
        [Query(expr, state) for state, expr in states.items()],
        COUNT,
        styles={state: grafana.fixed(colour) for state, colour in STATES.items()},
        stacked=True,
    )
    return Section(
        "Where is it not, and what changed?",
        (Line(11, (servers,)), Line(9, (doing, _lanes(asks))), Line(7, (_alerts(asks, settings),))),
    )


def _columns(asks: Asks) -> tuple[Column, ...]:
    acceptance = f"({asks.signal('acceptance_rate', SERVER)})\nor\n({asks.recorded_alone('acceptance_rate')})"
    yesterday = asks.offset(DAY_BEFORE)
    change = less(asks.signal("acceptance_rate", SERVER), yesterday.signal("acceptance_rate", SERVER))
    drift = beside_servers(of_sidecar("specwatch_drift_score"))

    def column(title: str, name: str, scale: grafana.Scale) -> Column:
        return Column(title, asks.signal(name, SERVER), scale)

    return (
        Column(SPEEDUP, asks.signal("estimated_speedup", SERVER), TIMES, grafana.bad_below(LOSS), width=WIDE),
        Column("Acceptance", acceptance, SHARE, grafana.bad_below(LOW)),
        Column("Since yesterday", change, POINTS, width=130),
        column("Mean K", "draft_length", TOKENS),
        column("Coverage", "draft_coverage", SHARE),
        column("Batch", "running_requests", REQUESTS),
        column("Mean TPOT", "tpot", SECONDS),
        column("Generated", "generation_throughput", RATE),
        Column("Drift", drift, SCORE, grafana.bad_from(DRIFTED), width=80),
    )


def _lanes(asks: Asks) -> Any:
    def lane(severity: Severity, value: float) -> Query:
        return Query(f"max by (alertname) ({asks.firing(severity)}) * {value:g}", "{{alertname}}")

    return grafana.states(
        Words(
            "Which alerts fired, and when?",
            "A lane an alert, coloured for as long as it fired on any selected server. A page wants somebody now, a "
            "ticket in working hours.",
            NO_ALERT,
        ),
        [lane(severity, value) for severity, (value, _) in SEVERITIES.items()],
        {value: (severity.value, colour) for severity, (value, colour) in SEVERITIES.items()},
    )


def _alerts(asks: Asks, settings: Settings) -> Any:
    return table(
        Words(
            "What fires now, and for how long?",
            "Every alert of specwatch that this Prometheus has firing for the selected servers, the oldest first. "
            "A click on a server opens it in depth.",
            NO_ALERT,
        ),
        (
            Name("Severity", "severity", NARROW),
            Name("Alert", "alertname"),
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Job", "job", NARROW),
        ),
        (Column("For", asks.alerts_since(), SECONDS),),
        Order("For", descending=True),
    )


def _models(asks: Asks) -> Section:
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
    each = asks.signal("estimated_speedup", SERVER)
    spread = grafana.time_series(
        Words(
            "Do all servers gain alike?",
            "The smallest, the middle and the largest estimated speedup (at most) of all selected servers. A minimum "
            "that leaves the middle is one bad replica; all three falling is the traffic.",
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
    )
    return Section("Which models gain?", (Line(9, (speedup, acceptance, spread)),))


def _saved(asks: Asks) -> Section:
    gained = grafana.time_series(
        Words(
            "How many tokens a second does speculation gain?",
            "Tokens beyond those that plain decoding would make in the same time, by model: accepted ones less what "
            "drafting costs. Below 0 the draft takes more time than it saves.",
            NOTHING_DRAFTED,
        ),
        [Query(asks.tokens_gained(MODEL, asks.live.window, "rate"), BY_MODEL)],
        GAIN,
        first=LOWEST,
        alarm=0.0,
    )
    by_model = table(
        Words(
            "What did each model gain in the last day?",
            "Tokens and GPU-hours gained over plain decoding, estimated as above, the smallest first. What is "
            "negative was lost.",
            NOTHING_DRAFTED,
        ),
        (Name("Model", "model_name"), Name("Job", "job", NARROW)),
        (
            Column("Tokens gained", asks.tokens_gained(MODEL, LAST_DAY), MANY_TOKENS, grafana.bad_below(0), 150),
            Column("GPU-hours saved", f"{asks.hours_saved(MODEL)} * $gpus", HOURS, grafana.bad_below(0), 150),
            Column("Generated", asks.generated(MODEL, LAST_DAY), MANY_TOKENS, width=150),
        ),
        Order("Tokens gained"),
    )
    return Section("What was saved or lost?", (Line(9, (gained, by_model)),))


def _load(asks: Asks) -> Section:
    def trend(name: str, scale: grafana.Scale, words: Words) -> Any:
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
    return Section("How busy is the fleet?", (Line(8, panels),))


def _drift() -> Section:
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
    servers = grafana.time_series(
        Words(
            "How many servers drifted? (sidecar)",
            "Servers whose own score has reached the alarm, of those that the sidecar watches. The drift dashboard "
            "says since when and why.",
            NO_SIDECAR,
        ),
        [
            Query(f"count ({of_sidecar('specwatch_drift_score')} >= {DRIFTED:g})", "drifted"),
            Query(f"count ({of_sidecar('specwatch_drift_score')})", "judged"),
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
        styles={
            "measured": grafana.fixed(GOOD),
            "calibrated": grafana.fixed(OTHER),
            "estimated": grafana.fixed(NEUTRAL),
        },
        alarm=LOSS,
    )
    return Section("Needs the sidecar: has the traffic drifted?", (Line(8, (score, servers, kinds)),))
