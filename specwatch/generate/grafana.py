"""A thin layer over grafanalib: the panels that specwatch draws, from values that say what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from grafanalib import core

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The Prometheus that the reader of the dashboard chooses."""

NARROW, WIDE = 115, 215
"""Widths of a table's columns, in pixels: for a figure with its unit, and for a long heading."""

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


LOWEST, HIGHEST = "lowest", "highest"
"""Which series a legend begins with: those that want a look."""

PLAIN = Steps(NEUTRAL)
"""No judgement."""


@dataclass(frozen=True)
class Column:
    """A column of figures in a table with one row a server."""

    title: str
    expr: str
    scale: Scale
    steps: Steps | None = None
    width: int = NARROW


@dataclass(frozen=True)
class Name:
    """A column that says which server a row is: one of the labels, and where its cells lead to."""

    title: str
    label: str
    width: int | None = None
    """None: it shares what the others leave."""
    link: str | None = None


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
    first: str | None = None,
    alarm: float | None = None,
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    shade: str | None = None,
) -> Any:
    """Lines over time.

    ``first`` says which series head the legend, those with the LOWEST or the HIGHEST last value. ``alarm`` draws a
    dashed line where an alert has its threshold. Series keep one colour by name on every panel, or are shades of
    ``shade``; ``styles`` holds field settings by series name.
    """
    color = {"mode": "shades", "fixedColor": shade} if shade else {"mode": "palette-classic-by-name"}
    order = {"sortBy": "Last *", "sortDesc": first == HIGHEST} if first else {}
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
        overrides=[_override(name, settings) for name, settings in (styles or {}).items()],
        extraJson={
            "fieldConfig": {"defaults": {**scale.json(), "color": color, "noValue": words.empty}},
            "options": {"legend": {"showLegend": True, **order}},
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
            "options": {
                "valueMode": "color",
                "showUnfilled": True,
                "namePlacement": "auto",
                "text": {"titleSize": 14, "valueSize": 20},
            },
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


def server_table(words: Words, names: Sequence[Name], columns: Sequence[Column], *, worst_first: str) -> Any:
    """One row a server: its names, then its figures, sorted upwards by the column ``worst_first``."""
    titles = {name.label: name.title for name in names}
    # Each query's values arrive under its letter.
    titles |= {f"Value #{letter}": column.title for letter, column in zip(ascii_uppercase, columns, strict=False)}
    return core.Table(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=_targets([Query(column.expr) for column in columns], instant=True),
        filterable=True,
        thresholds=PLAIN.build(),
        overrides=[
            *(_override(name.title, _name_settings(name)) for name in names),
            *(_override(column.title, _figure_settings(column)) for column in columns),
        ],
        sortBy=[core.TableSortByField(displayName=worst_first, desc=False)],
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {field: index for index, field in enumerate(titles)},
                    "renameByName": titles,
                },
            },
        ],
        unit="short",
        extraJson={"fieldConfig": {"defaults": {"noValue": words.empty}}},
    )


def fixed(colour: str) -> dict[str, Any]:
    """Field settings that give a series this colour."""
    return {"color": {"mode": "fixed", "fixedColor": colour}}


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


def _name_settings(name: Name) -> dict[str, Any]:
    links = [{"title": "Show this alone", "url": name.link}] if name.link else None
    return {"custom.width": name.width, "links": links}


def _figure_settings(column: Column) -> dict[str, Any]:
    coloured = {"thresholds": column.steps.json(), "custom.cellOptions": {"type": "color-text"}} if column.steps else {}
    return {**column.scale.json(), "custom.width": column.width, "mappings": [_NO_FIGURE], **coloured}


_NO_FIGURE = {
    "type": "special",
    "options": {"match": "null+nan", "result": {"text": "–", "color": NEUTRAL, "index": 0}},
}
"""An empty cell is a dash, in the colour of no judgement."""
