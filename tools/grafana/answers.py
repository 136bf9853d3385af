"""What Prometheus answers to a dashboard's queries, asked as Grafana asks them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tools.grafana.history import STEP, History, Prometheus, seconds

SERIES = re.compile(r"\b(?:vllm:|specwatch_|process_)\w+")


@dataclass(frozen=True)
class View:
    """A dashboard, the choices made on it, and the answers to its queries."""

    dashboard: Mapping[str, Any]
    chosen: Mapping[str, str]
    answers: Mapping[str, Any]
    annotations: list[dict[str, Any]]
    history: History

    def json(self) -> dict[str, Any]:
        """What the page reads."""
        return {
            "dashboard": self.dashboard,
            "chosen": self.chosen,
            "answers": self.answers,
            "annotations": self.annotations,
            "from": self.history.start,
            "to": self.history.end,
            "step": STEP,
        }


def panels(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every panel, those of closed rows included."""
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", ())


def expressions(dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Every query of a panel and of an annotation."""
    for panel in panels(dashboard):
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (entry["expr"] for entry in dashboard["annotations"]["list"] if "expr" in entry)


def choices(dashboard: Mapping[str, Any], chosen: Mapping[str, str], seconds: float) -> dict[str, str]:
    """Values of variables as queries hold them: what is chosen, else all, else what the dashboard begins with."""
    built_in = {
        "__rate_interval": f"{4 * STEP}s",
        "__interval": f"{STEP}s",
        "__range": f"{seconds:.0f}s",
        "__range_s": f"{seconds:.0f}",
    }
    own = {variable["name"]: _value(variable) for variable in dashboard["templating"]["list"]}
    return {**built_in, **own, **{name: re.escape(value).replace("\\", "\\\\") for name, value in chosen.items()}}


def substituted(expr: str, values: Mapping[str, str]) -> str:
    """The query as Grafana sends it: ``$name``, ``${name}`` and ``${name:format}`` replaced, others left."""
    return re.sub(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))", lambda found: values.get(found[1] or found[2], found[0]), expr)


async def ask(server: Prometheus, dashboard: Mapping[str, Any], chosen: Mapping[str, str], history: History) -> View:
    """Run every query of a dashboard."""
    values = choices(dashboard, chosen, history.end - history.start)
    answers = {
        f"{panel['id']}{target['refId']}": await _answer(server, panel, target, values, history)
        for panel in panels(dashboard)
        for target in panel.get("targets", ())
    }
    marks = [
        {"time": float(moment), "color": entry["iconColor"]}
        for entry in dashboard["annotations"]["list"]
        if entry.get("enable") and "expr" in entry
        for series in await server.over_time(substituted(entry["expr"], values), history.start, history.end)
        for moment, _ in _beginnings(series["values"])
    ]
    return View(dashboard, chosen, answers, marks, history)


async def _answer(
    server: Prometheus,
    panel: Mapping[str, Any],
    target: Mapping[str, Any],
    values: Mapping[str, str],
    history: History,
) -> Any:
    expr = substituted(target["expr"], values)
    if target.get("instant"):
        return (await server.ask("query", query=expr, time=history.end))["result"]
    return await server.over_time(expr, history.start, history.end, max(STEP, seconds(panel.get("interval", "0s"))))


def _beginnings(values: list[Any]) -> list[Any]:
    """The first of each run of points: Grafana draws a longer run as one region."""
    return [
        point
        for before, point in zip([None, *values], values, strict=False)
        if not before or point[0] - before[0] > STEP
    ]


def _value(variable: Mapping[str, Any]) -> str:
    if variable.get("includeAll"):
        return str(variable.get("allValue", ".*"))
    current = variable.get("current", {}).get("value")
    return str(current if isinstance(current, str) else variable.get("query", ""))
