"""A thin layer over grafanalib: figures, lines and lanes, from values that say what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from grafanalib import core

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""The Prometheus that the reader of the dashboard chooses."""

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
"""Grey: neither good nor bad, too little to say, what was before."""
OTHER = "#56B4E9"
"""Sky blue: known in another way than the rest of the panel."""
GONE = "#CC79A7"
"""Purple: cannot be read."""
TRANSPARENT = "transparent"
TEXT = "text"
"""The theme's own, for letters."""


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
    at_least: float | None = None
    """How far an axis reaches even where all values are smaller."""

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

    def recoloured(self, change: Callable[[str], str]) -> Steps:
        """The same steps in other colours."""
        return Steps(change(self.base), tuple((value, change(colour)) for value, colour in self.steps))

    def json(self) -> dict[str, Any]:
        """The steps as an override of one field has them."""
        return {"mode": "absolute", "steps": self.build()}


def bad_from(value: float) -> Steps:
    """Good below ``value``, bad from it on."""
    return Steps(GOOD, ((value, BAD),))


def warn_from(value: float) -> Steps:
    """Good below ``value``, worth a look from it on."""
    return Steps(GOOD, ((value, WARN),))


def bad_below(value: float) -> Steps:
    """Bad below ``value``, good from it on."""
    return Steps(BAD, ((value, GOOD),))


LOWEST, HIGHEST = "lowest", "highest"
"""Which series a legend begins with: those that want a look."""

_EXTREMES: Mapping[str | None, tuple[str, ...]] = {LOWEST: ("min",), HIGHEST: ("max",), None: ("min", "max")}
"""What a legend says beside the last value: how far it went in the direction that wants a look."""

FINEST = "1m"
"""Least time between two points: a window of a minute or more has every sample then, and a fleet is asked for few."""

COARSE = "2m"
"""The same where every server's speedup is worked out several times over: of 200 servers it costs a second else."""

PLAIN = Steps(NEUTRAL)
"""No judgement."""


def stat(words: Words, query: Query, scale: Scale, steps: Steps = PLAIN, *, now: bool = False) -> Any:
    """One figure now, over a sparkline of how it came there, whose last point it is; ``now`` is without.

    A sparkline costs a query over time, and where a series has ended its last point is from then.
    """
    return core.Stat(
        title=words.title,
        description=words.description,
        noValue=words.empty,
        dataSource=DATASOURCE,
        targets=targets([query], now=now),
        interval=FINEST,
        graphMode="none" if now else "area",
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
    stacked: bool = False,
    least: str = FINEST,
) -> Any:
    """Lines over time, or areas on top of one another where they are ``stacked``.

    ``first`` says which series head the legend, those with the LOWEST or the HIGHEST last value. ``alarm`` draws a
    dashed line where an alert has its threshold. Series have Grafana's colours in the order of their names, or are
    shades of ``shade``; ``styles`` holds field settings by series name, ``least`` is the least time between points.
    """
    # Not by name: names that differ by a digit get neighbours of Grafana's palette, eight of which are nearly white.
    color = {"mode": "shades", "fixedColor": shade} if shade else {"mode": "palette-classic"}
    order = {"sortBy": "Last *", "sortDesc": first == HIGHEST} if first else {}
    soft = {} if scale.at_least is None else {"custom": {"axisSoftMax": scale.at_least}}
    return core.TimeSeries(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=targets(queries),
        interval=least,
        unit=scale.unit,
        lineWidth=1 if stacked else 2,
        fillOpacity=60 if stacked else 0,
        stacking={"group": "A", "mode": "normal"} if stacked else {},
        showPoints="never",
        tooltipMode="multi",
        tooltipSort="desc",
        legendDisplayMode="list" if stacked else "table",
        legendCalcs=[] if stacked else ["lastNotNull", *_EXTREMES[first]],
        thresholds=Steps(TRANSPARENT, () if alarm is None else ((alarm, BAD),)).build(),
        thresholdsStyleMode="off" if alarm is None else "dashed",
        overrides=[override(name, settings) for name, settings in (styles or {}).items()],
        extraJson={
            "fieldConfig": {"defaults": {**scale.json(), "color": color, "noValue": words.empty, **soft}},
            "options": {"legend": {"showLegend": True, **order}},
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
        targets=targets(queries),
        interval=FINEST,
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


def fixed(colour: str) -> dict[str, Any]:
    """Field settings that give a series this colour."""
    return {"color": {"mode": "fixed", "fixedColor": colour}}


def targets(queries: Sequence[Query], *, now: bool = False, table: bool = False) -> list[Any]:
    """The queries under letters, over the range of time that is shown or as they are now."""
    return [
        core.Target(
            expr=query.expr,
            legendFormat=query.legend,
            refId=letter,
            instant=now,
            format="table" if table else "time_series",
            datasource=DATASOURCE,
        )
        for letter, query in zip(ascii_uppercase, queries, strict=False)
    ]


def override(name: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the field of that name, or of those that match it where it is a /pattern/; None sets nothing."""
    kind = "byRegexp" if name.startswith("/") else "byName"
    return {
        "matcher": {"id": kind, "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items() if value is not None],
    }
