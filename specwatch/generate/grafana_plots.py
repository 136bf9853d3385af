"""Panels that grafanalib has no current form of: heatmaps, and values against values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafanalib import core

from specwatch.generate.grafana import (
    DATASOURCE,
    FINEST,
    PLAIN,
    TRANSPARENT,
    Query,
    Scale,
    Words,
    fixed,
    override,
    targets,
)

SHADES = "Cividis"
"""Nuñez, Anderton and Renslow 2018: made to be read alike with any colour vision."""


class _Heatmap(core.Panel):  # type: ignore[misc]  # grafanalib has no types
    def to_json_data(self) -> Any:
        return self.panel_json({"type": "heatmap"})


class _XYChart(core.Panel):  # type: ignore[misc]
    def to_json_data(self) -> Any:
        return self.panel_json({"type": "xychart"})


def heatmap(words: Words, rows: Sequence[Query], scale: Scale) -> Any:
    """A row of cells a query over time, each as dark as its value in the scale's range."""
    return _Heatmap(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=targets(rows),
        interval=FINEST,
        thresholds=PLAIN.build(),
        extraJson={
            "fieldConfig": {
                "defaults": {
                    **scale.json(),
                    "noValue": words.empty,
                    "custom": {
                        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
                        "scaleDistribution": {"type": "linear"},
                    },
                }
            },
            "options": {
                "calculate": False,
                "cellGap": 1,
                "cellValues": {"unit": scale.unit},
                "color": {
                    "mode": "scheme",
                    "scheme": SHADES,
                    "steps": 64,
                    "scale": "linear",
                    "fill": "dark-blue",
                    "exponent": 0.5,
                    "reverse": False,
                    "min": scale.low,
                    "max": scale.high,
                },
                "exemplars": {"color": TRANSPARENT},
                "filterValues": {"le": -1.0},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "showValue": "never",
                "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "reverse": True},
            },
        },
    )


@dataclass(frozen=True)
class Points:
    """A series of an xy chart: the query ``number`` of the panel, one of its labels or values against another."""

    name: str
    number: int
    x: str
    y: str
    colour: str
    is_line: bool = False
    """Whether the points are joined by a dashed line instead of drawn."""

    def settings(self) -> dict[str, Any]:
        """What its values' field has for itself."""
        line = {"custom.show": "lines", "custom.lineStyle": {"fill": "dash", "dash": [10, 10]}}
        return {**fixed(self.colour), **(line if self.is_line else {})}


def against(words: Words, queries: Sequence[Query], series: Sequence[Points], scale: Scale, *, numeric: str) -> Any:
    """Values against values as they are now. ``numeric`` is a label that is read as a number."""
    return _XYChart(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=targets(queries, now=True, table=True),
        thresholds=PLAIN.build(),
        transformations=[
            {
                "id": "convertFieldType",
                "options": {"conversions": [{"targetField": numeric, "destinationType": "number"}], "fields": {}},
            }
        ],
        extraJson={
            "fieldConfig": {
                "defaults": {
                    **scale.json(),
                    "noValue": words.empty,
                    "color": {"mode": "palette-classic"},
                    "custom": {
                        "show": "points",
                        "pointSize": {"fixed": 8},
                        "axisPlacement": "auto",
                        "hideFrom": {"legend": False, "tooltip": False, "viz": False},
                        "scaleDistribution": {"type": "linear"},
                    },
                },
                "overrides": [override(points.y, points.settings()) for points in series],
            },
            "options": {
                "mapping": "manual",
                "series": [_series(points) for points in series],
                "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
                "tooltip": {"mode": "single", "sort": "none"},
            },
        },
    )


def _series(points: Points) -> dict[str, Any]:
    return {
        "name": {"fixed": points.name},
        "frame": {"matcher": {"id": "byIndex", "options": points.number}},
        "x": {"matcher": {"id": "byName", "options": points.x}},
        "y": {"matcher": {"id": "byName", "options": points.y}},
    }
