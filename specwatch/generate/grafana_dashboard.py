"""A thin layer over grafanalib: variables, annotations and the layout that make a dashboard of panels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from specwatch.generate.grafana import DATASOURCE
from specwatch.generate.grafana_schema import normalise

GRID_WIDTH = 24
"""Columns of Grafana's grid."""


def datasource_variable(kind: str = "prometheus") -> Any:
    """The choice of the data source to ask, among those of one type."""
    return core.Template(name="datasource", label="Data source", query=kind, type="datasource")


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


def interval_variable(name: str, title: str, durations: Sequence[str], value: str) -> Any:
    """The choice of a duration, ``value`` at first."""
    return core.Template(name=name, label=title, query=",".join(durations), type="interval", default=value)


def box_variable(name: str, title: str, value: str) -> Any:
    """A number that the reader may write, ``value`` at first."""
    return core.Template(name=name, label=title, query=value, type="textbox", default=value)


def link(title: str, url: str) -> Any:
    """A link at the top to another dashboard, which keeps the choices and the time."""
    return core.DashboardLink(title=title, uri=url, type="link", icon="dashboard", includeVars=True, keepTime=True)


def annotation(name: str, expr: str, title: str, colour: str, enabled: bool = True) -> dict[str, Any]:
    """Marks on every panel wherever ``expr`` has a value; ``title`` may use ``{{label}}``.

    What is not ``enabled`` is drawn once the reader switches it on.
    """
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": enabled,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "useValueForTime": False,
    }


@dataclass(frozen=True)
class Line:
    """Panels side by side, equally wide unless ``widths`` says how many of the grid's columns each has."""

    height: int
    panels: tuple[Any, ...]
    widths: tuple[int, ...] = ()

    def places(self) -> Iterator[tuple[int, int]]:
        """First column and width of each panel."""
        x = 0
        for width in self.widths or [GRID_WIDTH // len(self.panels)] * len(self.panels):
            yield x, width
            x += width


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
            for panel, (x, width) in zip(line.panels, line.places(), strict=True):
                panel.gridPos = core.GridPos(h=line.height, w=width, x=x, y=y)
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
    links: tuple[Any, ...]
    variables: tuple[Any, ...]
    annotations: tuple[Mapping[str, Any], ...]
    sections: tuple[Section, ...]
    datasource_type: str = DATASOURCE["type"]

    def json(self) -> dict[str, Any]:
        """The dashboard as current Grafana reads it."""
        built = core.Dashboard(
            uid=self.uid,
            title=self.title,
            description=self.description,
            tags=list(self.tags),
            links=list(self.links),
            templating=core.Templating(list=list(self.variables)),
            annotations=core.Annotations(list=list(self.annotations)),
            panels=arrange(self.sections),
            graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
            editable=False,
            refresh="1m",
            time=core.Time("now-3h", "now"),
            timezone="browser",
        ).auto_panel_ids()
        written = json.dumps(built, cls=DashboardEncoder)
        asked = json.dumps(DATASOURCE), json.dumps({**DATASOURCE, "type": self.datasource_type})
        return normalise(json.loads(written.replace(*asked)))


def text(dashboard: Mapping[str, Any]) -> str:
    """The file's text: sorted keys and a final newline, so that equal dashboards are equal bytes."""
    return json.dumps(dashboard, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
