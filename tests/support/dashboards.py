"""What tests ask of a Grafana dashboard's JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every panel, headings of rows left out."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def titled(dashboard: Mapping[str, Any], title: str) -> dict[str, Any]:
    """The panel that is named by any part of its title."""
    (found,) = (panel for panel in panels(dashboard) if title in panel["title"])
    return found


def variables(dashboard: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The variables by name, the choice of a data source left out."""
    return {entry["name"]: entry for entry in dashboard["templating"]["list"] if entry["type"] == "query"}


def expressions(dashboard: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Place and PromQL of every query of a panel and of every annotation."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]


def metrics(expr: str) -> set[str]:
    """Names of vLLM's and specwatch's series in an expression."""
    return set(re.findall(r"\b(?:vllm:|specwatch_)\w+", expr))


def substituted(text: str, values: Mapping[str, str]) -> str:
    """The text as Grafana sends it: ``$name`` replaced, unknown names left alone."""
    return re.sub(r"\$(\w+)", lambda match: values.get(match[1], match[0]), text)
