"""The dashboard *fleet*: is speculation paying, where not, what changed. Readable with 5 servers and with 200."""

from __future__ import annotations

from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.generate import grafana, grafana_dashboard
from specwatch.generate.dashboards.asks import (
    DAY_BEFORE,
    LAST_DAY,
    Asks,
    beside_servers,
    less,
    of_sidecar,
)
from specwatch.generate.dashboards.fleet_models import drifted, load, models, saved
from specwatch.generate.dashboards.frame import Board, Settings, dashboard, link_to_server
from specwatch.generate.dashboards.parts import (
    DRIFTED,
    KINDS,
    LOSS,
    LOW,
    SPEEDUP,
    findings,
    marks,
    speedup_words,
)
from specwatch.generate.dashboards.scales import (
    COUNT,
    HOURS,
    MANY_TOKENS,
    NO_ALERT,
    NO_SERVER,
    NOTHING_DRAFTED,
    POINTS,
    SCORE,
    SECONDS,
    SHARE,
    TIMES,
)
from specwatch.generate.grafana import (
    BAD,
    GONE,
    GOOD,
    NEUTRAL,
    OTHER,
    WARN,
    Query,
    Scale,
    Steps,
    Words,
)
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_table import NARROW, Column, Name, Order, table
from specwatch.generate.live_promql import FLEET, SERVER

STATES = {
    "paying": GOOD,
    "losing": BAD,
    "too few drafts": NEUTRAL,
    "V0": OTHER,
    "not drafting": WARN,
    "down": GONE,
}
"""What a server may be doing, and its colour."""

WORTH = "Speedup"
"""The column that the table of servers is sorted by."""

UNDRAFTED = 1.0
"""The speedup of a server that decodes without its draft: it gains nothing, and comes before all that do."""

UNSAID = 1000.0
"""Stands for a speedup that cannot be told, and is shown as a dash: as no value such a server would come first, and
among two hundred hide the worst."""

KNOWN = {kind: float(-place) for place, kind in enumerate(KINDS)}
"""The value that stands for how a speedup is known, the better the larger."""

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
            models(asks),
            saved(asks),
            load(asks),
            drifted(),
        ),
        settings,
        annotations=marks(asks),
        boxes=(grafana_dashboard.box_variable("gpus", "GPUs per engine", "1"),),
    )


def _headline(asks: Asks) -> Section:
    saved_hours = f"{asks.hours_saved(FLEET)} * $gpus"

    def figure(query: Query, scale: Scale, steps: Steps, *words: str) -> Any:
        # A day for every point of a sparkline is what nobody should ask for, and where nothing is drafted any more its
        # last point is from long ago.
        counted = query.expr.endswith("or vector(0)")
        return grafana.stat(Words(*words), query, scale, steps, now=not counted)

    panels = (
        grafana.stat(
            speedup_words(SPEEDUP, asks), asks.all("estimated_speedup"), TIMES, grafana.bad_below(LOSS), now=True
        ),
        figure(
            asks.all("acceptance_rate"),
            SHARE,
            grafana.bad_below(LOW),
            "Acceptance: does it fit?",
            "Accepted draft tokens ÷ draft tokens, over all that is selected. It falls when the traffic no longer "
            "looks like what the draft learned.",
            NOTHING_DRAFTED,
        ),
        figure(
            Query(asks.losing(), "losing"),
            COUNT,
            grafana.bad_from(1),
            "Servers that lose",
            f"Servers whose speedup is below {LOSS:g} now, as measured where a sidecar knows it and else as estimated: "
            "users would wait less without speculation. The table below begins with them.",
            NO_SERVER,
        ),
        figure(
            Query(f"count ({asks.firing()}) or vector(0)", "firing"),
            COUNT,
            grafana.warn_from(1),
            "Alerts firing",
            "Alerts of specwatch about the selected servers, pages and tickets together, each server once. Which "
            "ones and since when is said below.",
            NO_SERVER,
        ),
        figure(
            Query(asks.tokens_gained(FLEET, LAST_DAY), "gained"),
            MANY_TOKENS,
            grafana.bad_below(0),
            "Tokens gained in a day",
            "Tokens beyond those that plain decoding would have made in the same time: accepted ones less what "
            f"drafting cost at {asks.cost.c:.1%} of a plain step each. Below 0 speculation lost tokens.",
            NOTHING_DRAFTED,
        ),
        figure(
            Query(saved_hours, "saved"),
            HOURS,
            grafana.bad_below(0),
            "GPU-hours saved in a day",
            "Hours with requests × (estimated speedup - 1) × coverage × GPUs per engine, which the box at the top "
            "says. Plain decoding would have needed these hours more, or fewer where it is below 0.",
            NOTHING_DRAFTED,
        ),
    )
    return Section("Is speculation paying?", (Line(5, panels, widths=(5, 5, 3, 3, 4, 4)),))


def _where(asks: Asks, settings: Settings) -> Section:
    servers = table(
        Words(
            "Which servers gain least?",
            "Every server, from the smallest speedup upwards, as measured where a sidecar knows it and else estimated, "
            "at most. Then those that cannot tell: little traffic, no draft, or V0; a click on one opens it in depth.",
            NO_SERVER,
        ),
        (
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Job", "job", NARROW),
        ),
        _columns(asks),
        Order(WORTH),
    )
    states = asks.servers_in_state()
    doing = grafana.time_series(
        Words(
            "How many servers pay, and how many do not?",
            "Servers by what speculation does on them, on top of one another; not drafting are those without a draft, "
            "and whose draft lies idle. An edge that rises everywhere is the traffic, a thin band is a replica.",
            NO_SERVER,
        ),
        [Query(expr, state) for state, expr in states.items()],
        COUNT,
        styles={state: grafana.fixed(colour) for state, colour in STATES.items()},
        stacked=True,
        least=grafana.COARSE,
    )
    return Section(
        "Where is it not, and what changed?",
        (
            Line(11, (servers,)),
            Line(9, (doing, _lanes(asks))),
            Line(6, (_alerts(asks, settings),)),
            Line(7, (findings(settings),)),
        ),
    )


def _columns(asks: Asks) -> tuple[Column, ...]:
    acceptance = f"({asks.signal('acceptance_rate', SERVER)})\nor\n({asks.recorded_alone('acceptance_rate')})"
    yesterday = asks.offset(DAY_BEFORE)
    change = less(asks.signal("acceptance_rate", SERVER), yesterday.signal("acceptance_rate", SERVER))
    drift = beside_servers(of_sidecar("specwatch_drift_score"))

    def column(title: str, name: str, scale: Scale) -> Column:
        return Column(title, asks.signal(name, SERVER), scale, width=90)

    return (
        Column(
            WORTH,
            asks.worth_or(UNDRAFTED, UNSAID),
            TIMES,
            grafana.bad_below(LOSS),
            width=NARROW,
            words={UNDRAFTED: ("not drafting", WARN), UNSAID: ("–", NEUTRAL)},
        ),
        Column(
            "Known",
            asks.worth_known(KNOWN),
            COUNT,
            width=100,
            words={KNOWN[kind]: (kind, colour) for kind, colour in KINDS.items()},
        ),
        Column("Acceptance", acceptance, SHARE, grafana.bad_below(LOW), width=100),
        Column("Since yesterday", change, POINTS, width=130),
        column("Mean K", "draft_length", Scale("none", decimals=2)),
        column("Coverage", "draft_coverage", SHARE),
        column("Batch", "running_requests", Scale("none", decimals=1)),
        column("TPOT", "tpot", SECONDS),
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
