"""The dashboard *drift*: has the traffic left what the draft knows, when, by how much, and what else changed."""

from __future__ import annotations

from typing import Any

from specwatch.generate import grafana
from specwatch.generate.dashboards.asks import (
    BY_MODEL,
    BY_SERVER,
    DAY_BEFORE,
    DEEPEST_POSITION,
    LAST_DAY,
    MODEL,
    Asks,
    beside_servers,
    less,
    of_sidecar,
)
from specwatch.generate.dashboards.frame import Board, Settings, dashboard, link_to_server
from specwatch.generate.dashboards.parts import DRIFTED, LOW, findings, marks
from specwatch.generate.dashboards.scales import (
    NO_REQUEST_ENDED,
    NO_SERVER,
    NO_SIDECAR,
    NOTHING_DRAFTED,
    POINTS,
    PROMPTS,
    SCORE,
    SECONDS,
    SHARE,
    SHIFT,
    TOKENS,
)
from specwatch.generate.grafana import GOOD, HIGHEST, LOWEST, NEUTRAL, Query, Scale, Words
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.grafana_plots import heatmap
from specwatch.generate.grafana_table import NARROW, Column, Name, Order, table
from specwatch.generate.live_promql import SERVER
from specwatch.signals.workload import SHIFTED

INDEX = Scale("none", decimals=3)
"""The population stability index: 0 for the same traffic, without an upper end."""


def drift(settings: Settings) -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    asks = Asks(settings.cost)
    return dashboard(
        Board.DRIFT,
        "Has the traffic left what the draft knows: when, by how much, where, and what else changed?",
        (_compared(asks, settings), _scores(), _positions(asks), _requests(asks), _changes(settings), _why(settings)),
        settings,
        annotations=marks(asks),
    )


def _compared(asks: Asks, settings: Settings) -> Section:
    before = asks.offset(DAY_BEFORE)
    now = grafana.time_series(
        Words(
            "Is acceptance what it was a day ago?",
            "Acceptance rate now beside the same hour of the day before, over all that is selected. Traffic repeats by "
            "the day, so a gap between the two is a change.",
            NOTHING_DRAFTED,
        ),
        [Query(asks.signal("acceptance_rate"), "now"), Query(before.signal("acceptance_rate"), "a day before")],
        SHARE,
        styles={"now": grafana.fixed(GOOD), "a day before": grafana.fixed(NEUTRAL)},
        alarm=LOW,
    )
    models = grafana.time_series(
        Words(
            "Did one model change, or all?",
            "Acceptance rate by model, its servers pooled. One that falls alone has new traffic or a new draft; all "
            "falling together have something under them in common.",
            NOTHING_DRAFTED,
        ),
        [asks.models("acceptance_rate")],
        SHARE,
        first=LOWEST,
    )
    acceptance, day, yesterday = (
        each.signal("acceptance_rate", SERVER) for each in (asks, asks.over(LAST_DAY), before)
    )
    lengths = asks.signal("draft_length", SERVER)
    rows = table(
        Words(
            "Which servers changed most?",
            "Acceptance now, now less the last day's, and now less the same hour a day ago, the largest fall first. "
            "Where mean K changed too, acceptance moves by that alone.",
            NOTHING_DRAFTED,
        ),
        (
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Job", "job", NARROW),
        ),
        (
            Column("Now", acceptance, SHARE),
            Column("Against the day", less(acceptance, day), POINTS, width=130),
            Column("Since yesterday", less(acceptance, yesterday), POINTS, width=130),
            Column("Mean K", lengths, TOKENS),
            Column("K since yesterday", less(lengths, before.signal("draft_length", SERVER)), SIGNED, width=150),
            Column(
                "Drift score", beside_servers(of_sidecar("specwatch_drift_score")), SCORE, grafana.bad_from(DRIFTED)
            ),
        ),
        Order("Against the day"),
    )
    return Section("Did acceptance change?", (Line(9, (now, models)), Line(9, (rows,))))


SIGNED = Scale("suffix:tokens", low=None, decimals=2)
"""A difference of tokens."""


def _positions(asks: Asks) -> Section:
    cells = heatmap(
        Words(
            "At which position does the draft lose the thread?",
            "Share accepted at each position of the drafts that were accepted up to it: the brighter, the more. New "
            "traffic moves the first positions, a schedule or a method the last ones.",
            NOTHING_DRAFTED,
        ),
        [
            Query(asks.acceptance_given_the_one_before(position), f"position {position}")
            for position in range(DEEPEST_POSITION + 1)
        ],
        SHARE,
    )
    first = Query(asks.acceptance_given_the_one_before(0, SERVER), BY_SERVER)
    servers = grafana.time_series(
        Words(
            "Is the first draft token still right?",
            "Share of drafts whose first token was accepted, by server. It does not depend on K, so servers and days "
            "of different K can be compared by it.",
            NOTHING_DRAFTED,
        ),
        [first],
        SHARE,
        first=LOWEST,
    )
    return Section("Where in the draft?", (Line(10, (cells, servers)),))


def _requests(asks: Asks) -> Section:
    before = asks.offset(DAY_BEFORE)

    def lengths(title: str, description: str, histogram: str) -> Any:
        queries = [
            Query(asks.mean(histogram, ("model_name",)), f"{BY_MODEL} now"),
            Query(before.mean(histogram, ("model_name",)), f"{BY_MODEL} a day before"),
        ]
        styles = {"/ a day before$/": {"custom.lineStyle": {"fill": "dash", "dash": [6, 6]}}}
        return grafana.time_series(Words(title, description, NO_REQUEST_ENDED), queries, PROMPTS, styles=styles)

    prompts = lengths(
        "Are prompts as long as they were?",
        "Mean prompt tokens of the requests that ended, by model, beside the day before. Another length is mostly "
        "another kind of request, which the draft may not know.",
        "vllm:request_prompt_tokens",
    )
    outputs = lengths(
        "Are answers as long as they were?",
        "Mean generated tokens of the requests that ended, by model, beside the day before. A draft is better in some "
        "kinds of answer than in others, and code is longer than chat.",
        "vllm:request_generation_tokens",
    )
    cached = grafana.time_series(
        Words(
            "Are as many prompts in the prefix cache?",
            "Share of prompt tokens that the prefix cache had, by model, on the V1 engine. It falls when prompts stop "
            "beginning alike, a change of traffic that lengths may not show.",
            NO_SERVER,
        ),
        [Query(asks.prefix_hits(MODEL), BY_MODEL)],
        SHARE,
        first=LOWEST,
    )
    return Section("Did the requests change?", (Line(9, (prompts, outputs, cached)),))


def _scores() -> Section:
    score = grafana.time_series(
        Words(
            "Has acceptance fallen from its own normal? (sidecar)",
            "The sidecar learns each server's usual acceptance and its spread, then adds up how far it falls below; 1 "
            "raises the alarm. All servers rising together are the traffic, one alone is the replica.",
            NO_SIDECAR,
        ),
        [
            Query(of_sidecar("specwatch_drift_score"), BY_SERVER),
            Query("max (specwatch_fleet_drift_score)", "whole fleet"),
        ],
        SCORE,
        first=HIGHEST,
        styles={"whole fleet": {**grafana.fixed(NEUTRAL), "custom.lineWidth": 4}},
        alarm=DRIFTED,
    )
    rise = grafana.time_series(
        Words(
            "Has it risen above its normal? (sidecar)",
            "The same upwards: acceptance that rises by itself is a change too. Repetition, a cache of answers or "
            "broken outputs do it.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_drift_rise_score"), BY_SERVER)],
        SCORE,
        first=HIGHEST,
        alarm=DRIFTED,
    )
    size = grafana.time_series(
        Words(
            "How large is the change? (sidecar)",
            "Acceptance now less the reference, in points, and the interval it lies in with 95 % certainty, dashed. An "
            "interval that holds 0 says that it may be chance.",
            NO_SIDECAR,
        ),
        [
            Query(of_sidecar("specwatch_drift_change_ratio"), BY_SERVER),
            Query(of_sidecar("specwatch_drift_change_low_ratio"), "{{instance}} low"),
            Query(of_sidecar("specwatch_drift_change_high_ratio"), "{{instance}} high"),
        ],
        SHIFT,
        styles={"/ (low|high)$/": {"custom.lineWidth": 1, "custom.lineStyle": {"fill": "dash", "dash": [4, 6]}}},
        alarm=0.0,
    )
    return Section("Needs the sidecar: scores, and the size of the change", (Line(9, (score, rise, size)),))


def _changes(settings: Settings) -> Section:
    def since(metric: str) -> str:
        return f"time() - {of_sidecar(metric)}"

    rows = table(
        Words(
            "Since when, against which reference? (sidecar)",
            "The reference that is taken as normal, the change from it with its interval, for how long it has lasted, "
            "and how long the present regime has held. Learned says how much of a reference is there yet.",
            NO_SIDECAR,
        ),
        (Name("Server", "instance", link=link_to_server(settings)), Name("Model", "model_name")),
        (
            Column("Score", of_sidecar("specwatch_drift_score"), SCORE, grafana.bad_from(DRIFTED), width=80),
            Column("Reference", of_sidecar("specwatch_drift_reference_ratio"), SHARE, width=100),
            Column("Change", of_sidecar("specwatch_drift_change_ratio"), POINTS, width=85),
            Column("at least", of_sidecar("specwatch_drift_change_low_ratio"), POINTS, width=85),
            Column("at most", of_sidecar("specwatch_drift_change_high_ratio"), POINTS, width=85),
            Column("Changed for", since("specwatch_drift_since_timestamp_seconds"), SECONDS),
            Column("Regime for", since("specwatch_drift_regime_since_timestamp_seconds"), SECONDS),
            Column("Learned", of_sidecar("specwatch_drift_learned_ratio"), SHARE, width=90),
        ),
        Order("Score", descending=True),
    )
    return Section("Needs the sidecar: references in use", (Line(9, (rows,)),))


def _why(settings: Settings) -> Section:
    shift = grafana.time_series(
        Words(
            "Which property of the requests shifted? (sidecar)",
            "Population stability index of prompt and answer lengths, finish reasons and the prefix cache against the "
            "reference. Below 0.1 nothing changed; above the dashed line it is another traffic.",
            NO_SIDECAR,
        ),
        [Query(of_sidecar("specwatch_workload_shift_ratio", by=("feature",)), "{{instance}} {{feature}}")],
        INDEX,
        first=HIGHEST,
        alarm=SHIFTED,
    )
    return Section("Needs the sidecar: what shifted, and why", (Line(9, (shift, findings(settings)), widths=(10, 14)),))
