"""A thin layer over grafanalib: tables with a row a server, a model, an alert or whatever the labels tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from grafanalib import core

from specwatch.generate.grafana import (
    DATASOURCE,
    GOOD,
    NEUTRAL,
    PLAIN,
    TEXT,
    Query,
    Scale,
    Steps,
    Words,
    override,
    targets,
)

NARROW = 115
"""Width of a table's column in pixels, for a figure with its unit."""


@dataclass(frozen=True)
class Column:
    """A column of figures."""

    title: str
    expr: str
    scale: Scale
    steps: Steps | None = None
    width: int | None = NARROW
    words: Mapping[float, tuple[str, str]] | None = None
    """Word and colour that stand for a value."""
    as_bar: bool = False
    """Draw a bar as long as the value, in the scale's range, behind the figure."""


@dataclass(frozen=True)
class Name:
    """A column that says what a row is: one of the labels, and where its cells lead to."""

    title: str
    label: str
    width: int | None = None
    """None: it shares what the others leave."""
    link: str | None = None


@dataclass(frozen=True)
class Order:
    """What a table is sorted by at first."""

    column: str
    descending: bool = False
    only: bool = False
    """Leave out rows without a figure there: upwards they come first, and in a large fleet hide all others."""

    def transformations(self) -> list[dict[str, Any]]:
        """What does that."""
        if not self.only:
            return []
        has_figure = {"fieldName": self.column, "config": {"id": "isNotNull", "options": {}}}
        return [{"id": "filterByValue", "options": {"filters": [has_figure], "match": "all", "type": "include"}}]


def table(words: Words, names: Sequence[Name], columns: Sequence[Column], order: Order) -> Any:
    """Rows as they are now: their names, then their figures."""
    titles = {name.label: name.title for name in names}
    titles |= {field: column.title for field, column in _fields(columns)}
    return core.Table(
        title=words.title,
        description=words.description,
        dataSource=DATASOURCE,
        targets=targets([Query(column.expr) for column in columns], now=True, table=True),
        filterable=True,
        thresholds=PLAIN.build(),
        overrides=[
            *(override(name.title, _name_settings(name)) for name in names),
            *(override(column.title, _figure_settings(column)) for column in columns),
        ],
        sortBy=[core.TableSortByField(displayName=order.column, desc=order.descending)],
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
            *order.transformations(),
        ],
        unit="short",
        extraJson={"fieldConfig": {"defaults": {"noValue": words.empty}}},
    )


def _fields(columns: Sequence[Column]) -> list[tuple[str, Column]]:
    """What Grafana calls each column's values: by the query's letter where there are several."""
    if len(columns) == 1:
        return [("Value", columns[0])]
    return [(f"Value #{letter}", column) for letter, column in zip(ascii_uppercase, columns, strict=False)]


def _name_settings(name: Name) -> dict[str, Any]:
    links = [{"title": "Show this alone", "url": name.link}] if name.link else None
    return {"custom.width": name.width, "links": links}


def _figure_settings(column: Column) -> dict[str, Any]:
    mappings: list[dict[str, Any]] = [_NO_FIGURE]
    settings = {**column.scale.json(), "custom.width": column.width}
    if column.words:
        words = {value: (text, _of_letters(colour)) for value, (text, colour) in column.words.items()}
        mappings = [mapping(words), *mappings]
        settings["custom.cellOptions"] = {"type": "color-text"}
    if column.steps:
        steps = column.steps if column.as_bar else column.steps.recoloured(_of_letters)
        settings |= {"thresholds": steps.json(), "custom.cellOptions": {"type": "color-text"}}
    if column.as_bar:
        bar = {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}
        settings |= {"custom.cellOptions": bar, "color": {"mode": "thresholds"}}
    return {**settings, "mappings": mappings}


def _of_letters(colour: str) -> str:
    """What is good is written as all text is: it needs no colour, and blue letters are hard to read in the dark."""
    return TEXT if colour == GOOD else colour


def mapping(words: Mapping[float, tuple[str, str]]) -> dict[str, Any]:
    """Words and colours in place of values."""
    options = {
        f"{value:g}": {"text": text, "color": colour, "index": index}
        for index, (value, (text, colour)) in enumerate(words.items())
    }
    return {"type": "value", "options": options}


_NO_FIGURE = {
    "type": "special",
    "options": {"match": "null+nan", "result": {"text": "–", "color": NEUTRAL, "index": 0}},
}
"""An empty cell is a dash, in the colour of no judgement."""
