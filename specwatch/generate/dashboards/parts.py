"""What several of the dashboards show alike: thresholds, annotations, and words about the estimated speedup."""

from __future__ import annotations

from typing import Any

from specwatch.alerting.watchdogs import alert
from specwatch.generate import grafana, grafana_dashboard
from specwatch.generate.dashboards.asks import BY_MODEL, MODEL, Asks, of_sidecar
from specwatch.generate.dashboards.asks import IDLE as IDLE
from specwatch.generate.dashboards.asks import LOSS as LOSS
from specwatch.generate.dashboards.frame import Settings, link_to_server
from specwatch.generate.dashboards.scales import COUNT, GAIN, NO_FINDING, NOTHING_DRAFTED, TIMES
from specwatch.generate.grafana import BAD, GOOD, LOWEST, NEUTRAL, OTHER, WARN, Query, Scale, Words
from specwatch.generate.grafana_table import Column, Name, Order, table
from specwatch.signals.findings import Level

LOW = alert("SpeculativeAcceptanceRateLow").threshold
DRIFTED = alert("SpeculationDrifted").threshold
WORTHLESS = alert("SpeculationLastPositionsWasted").threshold

KINDS = {"measured": GOOD, "calibrated": OTHER, "estimated": NEUTRAL}
"""How a speedup is known, the best known first, and the colour of each."""

LEVELS = {Level.PROBLEM: (2.0, WARN), Level.NOTICE: (1.0, NEUTRAL)}
"""The value that stands for how much a finding matters, and its colour."""

SPEEDUP = "Estimated speedup, at most"
"""What the estimate is called wherever it stands: without a measurement it is an upper bound."""


def speedup_words(title: str, asks: Asks) -> Words:
    """The estimated speedup, at the draft cost that was chosen; below the alert's threshold speculation is a tax."""
    return Words(
        title,
        f"Speed of drafted steps ÷ speed without speculation, if a draft token costs {asks.cost.c:.1%} of a plain step "
        "and verifying costs nothing extra. Overhead and large batches only lower it: below "
        f"{LOSS:g}, speculation costs more than it gives.",
        NOTHING_DRAFTED,
    )


def speedup_trend(title: str, query: Query, asks: Asks) -> Any:
    """The estimated speedup over time, the alert's threshold dashed."""
    return grafana.time_series(speedup_words(title, asks), [query], TIMES, first=LOWEST, alarm=LOSS)


def trend(asks: Asks, name: str, scale: Scale, first: str, *words: str, alarm: float | None = None) -> Any:
    """A signal by server; ``words`` are title, description and what an empty panel says."""
    return grafana.time_series(Words(*words), [asks.servers(name)], scale, first=first, alarm=alarm)


def marks(asks: Asks) -> tuple[dict[str, Any], ...]:
    """Marks of what changed on the servers, and of what was told of them."""
    page = asks.firing_count_by_alert()
    return (
        grafana_dashboard.annotation("Restarts", asks.restarts(), "{{instance}} restarted", NEUTRAL),
        grafana_dashboard.annotation("Deployments", asks.deployments(), "{{instance}} got another K", WARN),
        grafana_dashboard.annotation("Alerts", page, "{{alertname}} {{instance}}", BAD, enabled=False),
    )


def findings(settings: Settings) -> Any:
    """What a sidecar finds at each server, problems first."""
    told = (
        f"{value:g} * ({of_sidecar('specwatch_diagnosis', matcher, by=('code',))})"
        for level, (value, _) in LEVELS.items()
        for matcher in [f'level="{level.value}"']
    )
    return table(
        Words(
            "What is wrong, and where? (sidecar)",
            "What the sidecar finds now, by server, problems first; its page has the evidence and the remedy of each. "
            "One finding on all servers has one reason.",
            NO_FINDING,
        ),
        (
            Name("Server", "instance", link=link_to_server(settings)),
            Name("Model", "model_name"),
            Name("Finding", "code", 180),
        ),
        (
            Column(
                "Level",
                "\nor\n".join(told),
                COUNT,
                width=90,
                words={value: (level.value, colour) for level, (value, colour) in LEVELS.items()},
            ),
        ),
        Order("Level", descending=True),
    )


def tokens_gained(asks: Asks, title: str) -> dict[str, Any]:
    """What speculation gains over plain decoding, by model."""
    panel: dict[str, Any] = grafana.time_series(
        Words(
            title,
            "Tokens beyond those that plain decoding would make in the same time, by model: accepted ones less what "
            "drafting costs. Below 0 the draft takes more time than it saves.",
            NOTHING_DRAFTED,
        ),
        [Query(asks.tokens_gained(MODEL, asks.live.window, "rate"), BY_MODEL)],
        GAIN,
        first=LOWEST,
        alarm=0.0,
    )
    return panel
