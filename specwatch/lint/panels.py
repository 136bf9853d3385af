"""The panels of a Grafana dashboard as its JSON has them, of any schema version that keeps them in a list."""

from __future__ import annotations

from collections.abc import Iterator

from specwatch.lint.documents import Mapping, Node, Scalar
from specwatch.lint.expressions import Expression
from specwatch.lint.sources import Panel, Query


def panels(body: Mapping) -> Iterator[Panel]:
    """Every panel of a dashboard, those of closed rows included."""
    groups: list[tuple[Node, ...]] = [body.items("panels")]
    groups += [row.items("panels") for row in body.items("rows") if isinstance(row, Mapping)]
    group = 0
    while group < len(groups):
        for node in groups[group]:
            if isinstance(node, Mapping):
                groups += [inside for inside in [node.items("panels")] if inside]
                title = node.get("title")
                if isinstance(title, Scalar) and node.text("type") != "row":
                    yield _panel(node, title, group)
        group += 1


def _panel(node: Mapping, title: Scalar, group: int) -> Panel:
    return Panel(
        title=title,
        kind=node.text("type"),
        path=title.value,
        group=group,
        id=node.text("id"),
        place=_place(node),
        source=_source(node.get("datasource")),
        has_unit=_has_unit(node),
        is_described=bool(node.text("description").strip()),
        queries=tuple(_queries(node, title.value)),
    )


def _queries(node: Mapping, path: str) -> Iterator[Query]:
    for target in node.items("targets"):
        if isinstance(target, Mapping):
            expr, legend = target.get("expr"), target.get("legendFormat")
            if isinstance(expr, Scalar):
                label = legend if isinstance(legend, Scalar) and legend.value else None
                yield Query(expr, 0, Expression(expr.value, grafana=True), path, label)


def _place(node: Mapping) -> tuple[float, float, float, float] | None:
    try:
        left, top, width, height = (float(node.text("gridPos", key)) for key in ("x", "y", "w", "h"))
    except ValueError:
        return None
    return left, top, width, height


def _source(node: Node | None) -> Scalar | None:
    found = node.get("uid") if isinstance(node, Mapping) else node
    return found if isinstance(found, Scalar) and found.value != "null" else None


def _has_unit(node: Mapping) -> bool:
    """Whether the panel, one of its overrides, or an axis of an old one says what its values are."""
    if node.text("fieldConfig", "defaults", "unit") or node.text("format"):
        return True
    properties = [
        entry
        for override in node.items("fieldConfig", "overrides")
        if isinstance(override, Mapping)
        for entry in override.items("properties")
    ]
    axes = [axis.text("format") for axis in node.items("yaxes") if isinstance(axis, Mapping)]
    return any(isinstance(entry, Mapping) and entry.text("id") == "unit" for entry in properties) or any(axes)
