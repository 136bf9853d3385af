"""What the four dashboards have in common: names, variables, links, annotations, and the user's choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from specwatch.errors import InputError
from specwatch.generate import grafana_dashboard
from specwatch.generate.grafana_dashboard import Section
from specwatch.signals.speedup import ASSUMED, DraftCost
from specwatch.vllm.metrics import GAUGES, Counter

TAGS = ("specwatch", "vllm", "speculative-decoding")

LONGEST_UID = 40
"""Characters that Grafana takes."""

DATASOURCE_TYPES = (
    "prometheus",
    "grafana-amazonprometheus-datasource",
    "grafana-azureprometheus-datasource",
    "victoriametrics-metrics-datasource",
)
"""Grafana's data sources that speak PromQL."""

SELECTOR = 'job=~"$job", model_name=~"$model_name", instance=~"$instance", engine=~"$engine"'
"""Variables are called like the labels they choose, so that an alert's link can set them from its own labels."""

WINDOW = "$interval"
"""What rates are taken over: the reader's choice, 5 m at first, which is what alerts compare."""

WINDOWS = ("1m", "5m", "15m", "30m", "1h", "6h", "1d")
"""To choose from. A rate needs two scrapes, so 1 m wants one every 30 s or more often."""

EVERY_SERVER = GAUGES[Counter.RUNNING_SECONDS]
"""A series that every vLLM with statistics has, whether it speculates or not: the variables list its labels."""


class Board(str, Enum):
    """The dashboards, by what their uid ends with."""

    FLEET = "fleet"
    SERVER = "server"
    DRIFT = "drift"
    SPEEDUP = "speedup"


@dataclass(frozen=True)
class Settings:
    """What a user may choose; InputError for a prefix that no address in Grafana may have."""

    job: str | None = None
    """The job that is selected at first; all of them without it."""
    prefix: str = ""
    """Put before uids and titles, so that several sets can live in one Grafana."""
    tags: tuple[str, ...] = ()
    folder: str = "specwatch"
    """Grafana's folder."""
    datasource_type: str = DATASOURCE_TYPES[0]
    cost: DraftCost = field(default=ASSUMED)

    def __post_init__(self) -> None:
        longest = max(len(self.uid(board)) for board in Board)
        if not re.fullmatch(r"[a-zA-Z0-9_-]*", self.prefix, re.ASCII) or longest > LONGEST_UID:
            spare = LONGEST_UID - longest + len(self.prefix)
            raise InputError(
                f"--prefix {self.prefix[:80]!r} becomes part of the dashboards' addresses: use up to {spare} letters, "
                "digits, '-' and '_'"
            )
        if self.datasource_type not in DATASOURCE_TYPES:
            raise InputError(
                f"unknown data source type {self.datasource_type[:80]!r}; PromQL is spoken by "
                f"{', '.join(DATASOURCE_TYPES)}"
            )

    def uid(self, board: Board) -> str:
        """The dashboard's address in Grafana: it never changes."""
        return f"{self.prefix}specwatch-{board.value}"

    def title(self, board: Board) -> str:
        """The dashboard's title."""
        return f"{self.prefix}specwatch: {board.value}"


def dashboard(
    board: Board,
    description: str,
    sections: Sequence[Section],
    settings: Settings,
    *,
    annotations: Sequence[dict[str, Any]] = (),
    boxes: Sequence[Any] = (),
) -> dict[str, Any]:
    """One of the dashboards as Grafana reads it; ``boxes`` are variables of its own."""
    return grafana_dashboard.Dashboard(
        uid=settings.uid(board),
        title=settings.title(board),
        description=description,
        tags=(*TAGS, *settings.tags),
        links=tuple(_link(other, settings) for other in Board if other is not board),
        variables=(*_variables(settings), *boxes),
        annotations=tuple(annotations),
        sections=tuple(sections),
        datasource_type=settings.datasource_type,
    ).json()


def _link(board: Board, settings: Settings) -> Any:
    return grafana_dashboard.link(board.value.capitalize(), f"/d/{settings.uid(board)}")


def link_to_server(settings: Settings) -> str:
    """Where a click on a server's name leads: the same choices, and this server alone."""
    kept = "&".join(f"${{{name}:queryparam}}" for name in ("datasource", "job", "model_name", "interval"))
    return f"/d/{settings.uid(Board.SERVER)}?${{__url_time_range}}&{kept}&var-instance=${{__value.raw}}"


def _variables(settings: Settings) -> tuple[Any, ...]:
    def of(*labels: str) -> str:
        chosen = ", ".join(f'{label}=~"${label}"' for label in labels)
        return f"{EVERY_SERVER}{{{chosen}}}" if chosen else EVERY_SERVER

    return (
        grafana_dashboard.datasource_variable(settings.datasource_type),
        grafana_dashboard.label_variable("job", "Job", of(), settings.job),
        grafana_dashboard.label_variable("model_name", "Model", of("job")),
        grafana_dashboard.label_variable("instance", "Server", of("job", "model_name")),
        grafana_dashboard.label_variable("engine", "Engine", of("job", "model_name", "instance")),
        grafana_dashboard.interval_variable("interval", "Window", WINDOWS, "5m"),
    )
