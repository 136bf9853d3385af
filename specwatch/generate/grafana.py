"""A thin layer over grafanalib: the panels that specwatch draws, and what makes its output current.

grafanalib 0.7.1 writes the JSON of an older Grafana. Panels are built with it here, from values that say what
they mean, and ``normalise`` brings the finished dashboard up to the schema that Grafana writes today.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from specwatch.generate.grafana_schema import normalise

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The Prometheus that the reader of the dashboard chooses."""

GRID_WIDTH = 24
"""Columns of Grafana's grid."""

# Okabe and Ito's palette (Color Universal Design, 2008), which people with any colour vision can tell apart.
GOOD = "#0072B2"
"""Blue: speculation pays, a draft token was accepted."""
WARN = "#E69F00"
"""Orange: worth a look, work that was done for nothing."""
BAD = "#D55E00"
"""Vermilion: an alert's threshold, and what lies on its wrong side."""
OUTPUT = "#009E73"
"""Green: tokens that reach users."""
NEUTRAL = "#999999"
"""Grey: neither good nor bad."""
TRANSPARENT = "transparent"


@dataclass(frozen=True)
class Words:
    """What a panel says: its title asks or states something, its description teaches in two sentences."""

    title: str
    description: str
    empty: str
    """Shown in place of "No data"."""


@dataclass(frozen=True)
class Scale:
    """A value's unit, in Grafana's notation, and its range where it has one."""

    unit: str
    low: float | None = 0.0
    high: float | None = None
    decimals: int | None = None

    def json(self) -> dict[str, Any]:
        """The field settings that say this."""
        return {"unit": self.unit, "min": self.low, "max": self.high, "decimals": self.decimals}


SHARE = Scale("percentunit", high=1.0)
"""A ratio from 0 to 1, shown in per cent."""


@dataclass(frozen=True)
class Query:
    """One expression, and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Steps:
    """Colours by value: ``base`` up to the first step, then each step's colour from its value on."""

    base: str
    steps: tuple[tuple[float, str], ...] = ()

    def build(self) -> list[Any]:
        """The steps as grafanalib has them."""
        coloured = [(0.0, self.base), *self.steps]
        return [core.Threshold(colour, index, float(value)) for index, (value, colour) in enumerate(coloured)]

    def json(self) -> dict[str, Any]:
        """The steps as an override of one field has them."""
        return {"mode": "absolute", "steps": self.build()}


def bad_below(value: float) -> Steps:
    """Bad below ``value``, good from it on."""
    return Steps(BAD, ((value, GOOD),))


PLAIN = Steps(NEUTRAL)
"""No judgement."""


@dataclass(frozen=True)
class Column:
    """A column of figures in a table with one row a server."""

    title: str
    expr: str
    scale: Scale
    steps: Steps | None = None


def stat(words: Words, query: Query, scale: Scale, steps: Steps = PLAIN) -> Any:
    """One figure now, over a sparkline of how it came there."""
    return core.Stat(
        title=words.title,
        description=words.description,
        noValue=words.empty,
        dataSource=DATASOURCE,
        targets=_targets([query]),
        format=scale.unit,
        decimals=scale.decimals,
        reduceCalc="lastNotNull",
        color={"mode": "thresholds"},
        thresholds=steps.build(),
        extraJson={"fieldConfig": {"defaults": scale.json()}},
    )


def time_series(
    words: Words,
    queries: Sequence[Query],
    scale: Scale,
    *,
    alarm: float | None = None,
    colours: Mapping[str, str] | None = None,
    shade: str | None = None,
) -> Any:
    """Lines over time.

    ``alarm`` draws a dashed line where an alert has its threshold. ``colours`` fixes a colour by series name;
    without it series keep one colour by name on every panel, or are shades of ``shade``.
    """
    color = {"mode": "shades", "fixedColor": shade} if shade else {"mode": "palette-classic-by-name"}
    return core.TimeSeries(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=_targets(queries),
        unit=scale.unit,
        lineWidth=2,
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        legendDisplayMode="table",
        legendCalcs=["lastNotNull", "min", "max"],
        thresholds=Steps(TRANSPARENT, () if alarm is None else ((alarm, BAD),)).build(),
        thresholdsStyleMode="off" if alarm is None else "dashed",
        overrides=[_override(name, {"color": _fixed(colour)}) for name, colour in (colours or {}).items()],
        extraJson={
            "fieldConfig": {"defaults": {**scale.json(), "color": color, "noValue": words.empty}},
            "options": {"legend": {"showLegend": True}},
        },
    )


def bars(words: Words, query: Query, scale: Scale, colour: str) -> Any:
    """One bar a series, as it is now."""
    return core.BarGauge(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=_targets([query]),
        calc="lastNotNull",
        displayMode="basic",
        format=scale.unit,
        min=scale.low,
        max=scale.high,
        thresholds=Steps(colour).build(),
        extraJson={
            "fieldConfig": {"defaults": {"color": {"mode": "thresholds"}, "noValue": words.empty}},
            "options": {"valueMode": "color", "showUnfilled": True, "namePlacement": "auto"},
        },
    )


def states(words: Words, queries: Sequence[Query], labels: Mapping[float, tuple[str, str]]) -> Any:
    """One lane a series, coloured by state; ``labels`` gives each value its word and colour."""
    options = {
        f"{value:g}": {"text": text, "color": colour, "index": index}
        for index, (value, (text, colour)) in enumerate(labels.items())
    }
    return core.StateTimeline(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=_targets(queries),
        mappings=[{"type": "value", "options": options}],
        thresholds=PLAIN.build(),
        extraJson={
            "fieldConfig": {
                "defaults": {"unit": "none", "color": {"mode": "thresholds"}, "noValue": words.empty},
            },
            "options": {
                "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "single", "sort": "none"},
            },
        },
    )


def server_table(
    words: Words,
    columns: Sequence[Column],
    names: Mapping[str, str],
    *,
    worst_first: str,
    link: tuple[str, str] | None = None,
) -> Any:
    """One row a server: its ``names`` (label to heading), then ``columns``, sorted upwards by ``worst_first``.

    ``link`` is a label and the address that its cells lead to.
    """
    values = {f"Value #{letter}": column for letter, column in zip(ascii_uppercase, columns, strict=False)}
    order = [*names, *values]
    overrides = [_override(column.title, _cell(column)) for column in columns]
    if link:
        label, address = link
        overrides.append(_override(names[label], {"links": [{"title": "Show this server alone", "url": address}]}))
    return core.Table(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=_targets([Query(column.expr) for column in columns], instant=True),
        filterable=True,
        thresholds=PLAIN.build(),
        overrides=overrides,
        sortBy=[core.TableSortByField(displayName=worst_first, desc=False)],
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True, "job": "job" not in names},
                    "indexByName": {name: index for index, name in enumerate(order)},
                    "renameByName": {**names, **{name: column.title for name, column in values.items()}},
                },
            },
        ],
        unit="short",
        extraJson={"fieldConfig": {"defaults": {"noValue": words.empty}}},
    )


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


def _targets(queries: Sequence[Query], *, instant: bool = False) -> list[Any]:
    return [
        core.Target(
            expr=query.expr,
            legendFormat=query.legend,
            refId=letter,
            instant=instant,
            format="table" if instant else "time_series",
            datasource=DATASOURCE,
        )
        for letter, query in zip(ascii_uppercase, queries, strict=False)
    ]


def _override(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items() if value is not None],
    }


def _cell(column: Column) -> dict[str, Any]:
    coloured = {"thresholds": column.steps.json(), "custom.cellOptions": {"type": "color-text"}} if column.steps else {}
    return {**column.scale.json(), **coloured}


def _fixed(colour: str) -> dict[str, str]:
    return {"mode": "fixed", "fixedColor": colour}
