"""A thin layer over grafanalib: variables, annotations and the layout that make a dashboard of panels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from specwatch.generate.grafana import DATASOURCE
from specwatch.generate.grafana_schema import normalise

GRID_WIDTH = 24
"""Columns of Grafana's grid."""


def datasource_variable() -> Any:
    """The choice of the Prometheus to ask."""
    return core.Template(name="datasource", label="Data source", query="prometheus", type="datasource")


def label_variable(label: str, title: str, series: str, value: str | None = None) -> Any:
    """The choice of values of ``label`` among ``series``, under its name: several or all, ``value`` at first.

    "All" matches what lacks the label too, and stays short however many servers there are.
    """
    return core.Template(
        name=label,
        label=title,
        query=f"label_values({series}, {label})",
        dataSource=DATASOURCE,
        default=value,
        multi=True,
        includeAll=True,
        allValue=".*",
        refresh=core.REFRESH_ON_TIME_RANGE_CHANGE,
    )


def annotation(name: str, expr: str, title: str, colour: str) -> dict[str, Any]:
    """Marks on every panel wherever ``expr`` has a value; ``title`` may use ``{{label}}``."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "useValueForTime": False,
    }


@dataclass(frozen=True)
class Line:
    """Panels side by side, equally wide."""

    height: int
    panels: tuple[Any, ...]


@dataclass(frozen=True)
class Section:
    """A titled part of a dashboard."""

    title: str
    lines: tuple[Line, ...]


def arrange(sections: Iterable[Section]) -> list[Any]:
    """Row headings and panels, placed on the grid from top to bottom."""
    placed: list[Any] = []
    y = 0
    for section in sections:
        placed.append(core.RowPanel(title=section.title, gridPos=core.GridPos(h=1, w=GRID_WIDTH, x=0, y=y)))
        y += 1
        for line in section.lines:
            width = GRID_WIDTH // len(line.panels)
            for index, panel in enumerate(line.panels):
                panel.gridPos = core.GridPos(h=line.height, w=width, x=index * width, y=y)
            placed.extend(line.panels)
            y += line.height
    return placed


@dataclass(frozen=True)
class Dashboard:
    """A whole dashboard."""

    uid: str
    title: str
    description: str
    tags: tuple[str, ...]
    variables: tuple[Any, ...]
    annotations: tuple[Mapping[str, Any], ...]
    sections: tuple[Section, ...]

    def json(self) -> dict[str, Any]:
        """The dashboard as current Grafana reads it."""
        built = core.Dashboard(
            uid=self.uid,
            title=self.title,
            description=self.description,
            tags=list(self.tags),
            templating=core.Templating(list=list(self.variables)),
            annotations=core.Annotations(list=list(self.annotations)),
            panels=arrange(self.sections),
            graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
            editable=False,
            refresh="30s",
            time=core.Time("now-3h", "now"),
            timezone="browser",
        ).auto_panel_ids()
        return normalise(json.loads(json.dumps(built, cls=DashboardEncoder)))


def text(dashboard: Mapping[str, Any]) -> str:
    """The file's text: sorted keys and a final newline, so that equal dashboards are equal bytes."""
    return json.dumps(dashboard, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
