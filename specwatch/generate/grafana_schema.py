"""From the JSON that grafanalib 0.7.1 writes to the one that current Grafana writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

SCHEMA_VERSION = 42
"""What Grafana 12 and 13 write; an older Grafana reads what it knows of it."""

GONE_FROM_DASHBOARDS = frozenset(["__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"])
GONE_FROM_PANELS = frozenset(
    ["color", "columns", "editable", "error", "fontSize", "height", "hideTimeOverride", "mappings", "minSpan", "span"]
)
GONE_FROM_TARGETS = frozenset(["intervalFactor", "metric", "query", "step", "target"])
GONE_FROM_VARIABLES = frozenset(["auto", "auto_count", "auto_min", "tagsQuery", "tagValuesQuery", "useTags"])
GONE_FROM_TIME_PICKER = frozenset(["nowDelay", "time_options"])
"""What grafanalib writes and the schema has no more."""

ROW_KEYS = frozenset(["collapsed", "gridPos", "id", "panels", "title", "type"])
"""All that a row's heading has: it is no panel."""

DATED_MAX_DATA_POINTS = 100
"""grafanalib's default, which draws a line of a hundred points however wide the panel is."""

ALL = {"selected": True, "text": ["All"], "value": ["$__all"]}
"""A variable of several values that starts with all of them."""

ONE_VALUE = frozenset(["interval", "textbox"])
"""Types of variables that hold one value, which is no result of a query."""

LABEL_VALUES = 1
"""Grafana's number for the kind of variable query that asks for the values of a label."""


def normalise(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """The same dashboard as current Grafana writes it.

    Drops what left the schema and what is null, and moves what has another place now. A second pass changes
    nothing.
    """
    data: dict[str, Any] = _without_nulls(_without(dashboard, GONE_FROM_DASHBOARDS))
    data["schemaVersion"] = SCHEMA_VERSION
    data["panels"] = [_panel(panel) for panel in data["panels"]]
    data["timepicker"] = _without(data["timepicker"], GONE_FROM_TIME_PICKER)
    data["templating"] = {"list": [_variable(variable) for variable in data["templating"]["list"]]}
    return data


def _panel(panel: Mapping[str, Any]) -> dict[str, Any]:
    if panel["type"] == "row":
        row = {key: value for key, value in panel.items() if key in ROW_KEYS}
        return {**row, "panels": [_panel(inner) for inner in row["panels"]]}
    data = _without(panel, GONE_FROM_PANELS)
    if data.get("maxDataPoints") == DATED_MAX_DATA_POINTS:
        del data["maxDataPoints"]
    data["targets"] = [_target(target) for target in data["targets"]]
    field_config = data["fieldConfig"]
    field_config.setdefault("overrides", [])
    _mend_field(field_config["defaults"])
    for override in field_config["overrides"]:
        for entry in override["properties"]:
            if entry["id"] == "thresholds":
                _mend_thresholds(entry["value"])
    return data


def _target(target: Mapping[str, Any]) -> dict[str, Any]:
    data = _without(target, GONE_FROM_TARGETS)
    # No exemplars: vLLM exports none, and asking costs a second query.
    extra = {"range": not data["instant"], "exemplar": False, "editorMode": "code"}
    return {key: value for key, value in {**data, **extra}.items() if value != ""}


def _mend_field(field: dict[str, Any]) -> None:
    _mend_thresholds(field["thresholds"])
    custom = field.get("custom", {})
    if "displayMode" in custom:
        custom["cellOptions"] = {"type": custom.pop("displayMode")}
    scale = custom.get("scaleDistribution", {})
    if scale.get("type") == "linear":
        scale.pop("log", None)
    if not custom.get("stacking", True):
        custom["stacking"] = {"group": "A", "mode": "none"}


def _mend_thresholds(thresholds: dict[str, Any]) -> None:
    """The first step has no value: null stands for minus infinity, and is no string."""
    steps = thresholds["steps"]
    thresholds["steps"] = [
        {"color": step["color"], "value": step["value"] if index else None} for index, step in enumerate(steps)
    ]


def _variable(variable: Mapping[str, Any]) -> dict[str, Any]:
    data = _without(variable, GONE_FROM_VARIABLES)
    chosen = data["current"].get("value")
    if data["type"] == "datasource":
        return {**data, "current": {}}
    if data["type"] in ONE_VALUE:
        chosen_one = {"selected": True, "text": chosen, "value": chosen}
        others = data["query"].split(",") if data["type"] == "interval" else []
        options = [{"selected": value == chosen, "text": value, "value": value} for value in others]
        return {**data, "current": chosen_one, "options": options or [chosen_one]}
    if isinstance(data["query"], str):
        data["query"] = {"qryType": LABEL_VALUES, "query": data["query"], "refId": "PrometheusVariableQuery"}
    if chosen is None:
        data["current"] = ALL
    elif isinstance(chosen, str):
        data["current"] = {"selected": True, "text": [chosen], "value": [chosen]}
    return data


def _without(mapping: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value
