"""What is wrong with a dashboard's panels whatever their expressions are: ids, places, units, words, legends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from specwatch.lint import findings
from specwatch.lint.book import Book
from specwatch.lint.findings import Code, Finding
from specwatch.lint.site import finding_in
from specwatch.lint.sources import Panel, Source

WITH_UNITS = frozenset({"timeseries", "stat", "gauge", "bargauge", "barchart", "heatmap", "graph", "singlestat"})
"""Types of panels that show values with one unit."""

WITH_LEGENDS = frozenset({"timeseries", "bargauge", "barchart", "state-timeline", "status-history", "graph"})
"""Types of panels that call a series by its legend."""

MOST_QUERIES = 12
"""Every query of a panel is one that Prometheus answers at every refresh, for everybody who looks."""

MOST_PANELS = 1000
"""Panels that are compared with one another; the largest published dashboards have a tenth."""

SPECIAL = ("--", "$")
"""What a data source begins with that is Grafana's own, or a variable."""


def in_dashboards(source: Source, book: Book) -> Iterator[Finding]:
    """Everything that is found in the panels of one dashboard that read vLLM's metrics."""
    ours = [panel for panel in source.panels if any(book.concerns_vllm(query) for query in panel.queries)]
    for check in (_shared_ids, _overlaps):
        yield from check(source, ours)
    for panel in ours:
        yield from _of_one(source, panel)


def _shared_ids(source: Source, panels: list[Panel]) -> Iterator[Finding]:
    first: dict[str, Panel] = {}
    for panel in panels:
        other = first.setdefault(panel.id, panel)
        if panel.id and other is not panel:
            message = f"the panel has the id {panel.id}, as {other.path!r} has"
            yield _finding(source, findings.SHARED_ID, message, "give every panel an id of its own", panel)


def _overlaps(source: Source, panels: list[Panel]) -> Iterator[Finding]:
    told: set[int] = set()
    for one, other in combinations(panels[:MOST_PANELS], 2):
        if one.group == other.group and _overlap(one, other) and id(other) not in told:
            told.add(id(other))
            message = f"the panel lies over {one.path!r}"
            yield _finding(source, findings.OVERLAP, message, "move one of them: see gridPos of both", other)


def _overlap(one: Panel, other: Panel) -> bool:
    if one.place is None or other.place is None:
        return False
    (x1, y1, w1, h1), (x2, y2, w2, h2) = one.place, other.place
    return x1 < x2 + w2 and x2 < x1 + w1 and y1 < y2 + h2 and y2 < y1 + h1


def _of_one(source: Source, panel: Panel) -> Iterator[Finding]:
    if panel.source is not None and panel.source.value and not panel.source.value.startswith(SPECIAL):
        message = f"the panel asks the data source {panel.source.value[:80]}, which one Grafana alone has"
        instead = "a variable of type datasource, and ${datasource} as the uid"
        yield _finding(source, findings.FIXED_SOURCE, message, instead, panel)
    if panel.kind in WITH_UNITS and not panel.has_unit:
        yield _finding(source, findings.NO_UNIT, "the values have no unit", "fieldConfig.defaults.unit", panel)
    if panel.kind and not panel.is_described:
        instead = "description: what it shows, and what to do when it looks wrong"
        yield _finding(source, findings.NO_DESCRIPTION, "nothing says what the panel is for", instead, panel)
    if panel.kind in WITH_LEGENDS and any(query.legend is None for query in panel.queries):
        instead = "legendFormat, such as {{instance}}"
        yield _finding(source, findings.NO_LEGEND, "series are called by all of their labels", instead, panel)
    if len(panel.queries) > MOST_QUERIES:
        message = f"the panel asks {len(panel.queries)} queries"
        instead = "one expression that keeps the label that tells them apart, or two panels"
        yield _finding(source, findings.MANY_QUERIES, message, instead, panel)


def _finding(source: Source, code: Code, message: str, instead: str, panel: Panel) -> Finding:
    return finding_in(source, code, message, instead, panel.path, panel.title, panel.title.value)
