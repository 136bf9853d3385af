"""A /metrics page as vLLM shows it, compiled once from the families of a captured page and filled in quickly.

The families (names, types, help texts, labels, bucket boundaries) are data in ``pages/``, made from captured pages by
``tools/page_families.py``; this module knows the text format and nothing about what the numbers mean.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from itertools import accumulate
from typing import Any

from prometheus_client.utils import floatToGoString

CREATED = "created"
"""Key of the process's value that every ``_created`` gauge shows."""


@dataclass(frozen=True)
class Family:
    """One metric family: its header, the label values that don't depend on the server, and values that never move."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    series: tuple[Mapping[str, str], ...]
    buckets: tuple[str, ...]
    values: tuple[float, ...]
    created: bool

    @property
    def bounds(self) -> tuple[float, ...]:
        """Finite bucket boundaries."""
        return tuple(float(bucket) for bucket in self.buckets if bucket != "+Inf")


class Histogram:
    """Counts between boundaries and a sum, as Prometheus keeps them; without boundaries, a summary."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = ()) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count ``value``; an upper boundary belongs to its bucket (le)."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times


@dataclass(frozen=True)
class Shape:
    """What decides which lines a page has: everything but the numbers.

    ``multiprocess`` is prometheus_client's mode with a directory: families without samples are left out, sums come
    first and nothing has a creation time. ``absent`` holds families and series (see ``series_key``) not shown yet.
    """

    page: str
    model_name: str
    engines: int
    positions: int
    multiprocess: bool = False
    absent: frozenset[str] = frozenset()


@dataclass
class Values:
    """Numbers of one engine, or of the process, by series key; what is missing shows as the captured constant or 0."""

    scalars: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


@lru_cache
def families(page: str) -> tuple[Family, ...]:
    """The families of ``pages/<page>.json``, in the page's order."""
    text = resources.files("specwatch.lab").joinpath("pages", f"{page}.json").read_text(encoding="utf-8")
    return tuple(_family(entry) for entry in json.loads(text))


def _family(entry: Mapping[str, Any]) -> Family:
    return Family(
        name=entry["name"],
        kind=entry["type"],
        help=entry["help"],
        labels=tuple(entry["labels"]),
        series=tuple(entry["series"]),
        buckets=tuple(entry.get("buckets", ())),
        values=tuple(entry.get("values", ())),
        created=entry.get("created", False),
    )


def series_key(name: str, labels: Mapping[str, str]) -> str:
    """Name of a series inside one engine or process: the family and its own label values, in the labels' order."""
    return "|".join([name, *(labels[label] for label in sorted(labels))])


def render(shape: Shape, engines: Sequence[Values], process: Values) -> str:
    """The page's text. Families named ``vllm:`` show the engines' values, the others the process's."""
    layout = _layout(shape)
    scopes = (*engines, process)
    texts: list[str] = []
    for slot in layout.slots:
        texts.extend(slot.texts(scopes[slot.scope]))
    return layout.template % tuple(texts)


@dataclass(frozen=True)
class _Scalar:
    scope: int
    key: str
    default: float

    def texts(self, values: Values) -> Iterator[str]:
        yield floatToGoString(values.scalars.get(self.key, self.default))


@dataclass(frozen=True)
class _Distribution:
    """A histogram's or summary's numbers: buckets, count, sum, in the order of the page."""

    scope: int
    key: str
    buckets: int
    sum_first: bool

    def texts(self, values: Values) -> list[str]:
        histogram = values.histograms.get(self.key)
        if histogram is None:
            return ["0.0"] * (self.buckets + 2)
        cumulative = [floatToGoString(count) for count in accumulate(histogram.counts)]
        total = floatToGoString(histogram.total)
        buckets = cumulative if self.buckets else []
        if self.sum_first:
            return [total, *buckets, cumulative[-1]]
        return [*buckets, cumulative[-1], total]


@dataclass(frozen=True)
class _Layout:
    template: str
    slots: tuple[_Scalar | _Distribution, ...]


@lru_cache(maxsize=256)
def _layout(shape: Shape) -> _Layout:
    lines: list[str] = []
    slots: list[_Scalar | _Distribution] = []
    for family in families(shape.page):
        if family.name in shape.absent:
            continue
        series = list(_series(family, shape))
        if series or not shape.multiprocess:
            lines.extend(_header(family.name, family.kind, family.help))
        for one in series:
            slot, names = _line(family, one, shape)
            slots.append(slot)
            lines.extend(_escape(name) + " %s" for name in names)
        if family.created and series:
            created = family.name.removesuffix("_total") if family.kind == "counter" else family.name
            lines.extend(_header(f"{created}_created", "gauge", family.help))
            for one in series:
                slots.append(_Scalar(shape.engines, CREATED, 0.0))
                lines.append(_escape(_sample(f"{created}_created", one.labels)) + " %s")
    return _Layout("\n".join(lines) + "\n", tuple(slots))


@dataclass(frozen=True)
class _Series:
    scope: int
    key: str
    labels: Mapping[str, str]
    default: float


def _series(family: Family, shape: Shape) -> Iterator[_Series]:
    """The family's series in vLLM's order: engines inside every label value, except positions, which are inside."""
    engines = range(shape.engines) if "engine" in family.labels else range(1)
    positions = range(shape.positions) if "position" in family.labels else range(1)
    for index, extra in enumerate(family.series):
        for engine in engines:
            for position in positions:
                by_server = {"engine": str(engine), "model_name": shape.model_name, "position": str(position)}
                own = dict(extra)
                if "position" in family.labels:
                    own["position"] = str(position)
                key = series_key(family.name, own)
                if key in shape.absent:
                    continue
                yield _Series(
                    scope=engine if family.name.startswith("vllm:") else shape.engines,
                    key=key,
                    labels={label: extra.get(label) or by_server.get(label, "") for label in family.labels},
                    default=family.values[index] if family.values else 0.0,
                )


def _line(family: Family, series: _Series, shape: Shape) -> tuple[_Scalar | _Distribution, list[str]]:
    """The slot of one series and the sample names in front of its numbers."""
    if family.kind not in ("histogram", "summary"):
        return _Scalar(series.scope, series.key, series.default), [_sample(family.name, series.labels)]
    names = [_sample(f"{family.name}_bucket", {**series.labels, "le": bound}) for bound in family.buckets]
    total = _sample(f"{family.name}_sum", series.labels)
    count = _sample(f"{family.name}_count", series.labels)
    slot = _Distribution(series.scope, series.key, len(family.buckets), sum_first=shape.multiprocess)
    return slot, [total, *names, count] if shape.multiprocess else [*names, count, total]


def _header(name: str, kind: str, text: str) -> list[str]:
    return [_escape(f"# HELP {name} {text}"), f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Mapping[str, str]) -> str:
    if not labels:
        return name
    inside = ",".join(f'{label}="{_quote(labels[label])}"' for label in sorted(labels))
    return f"{name}{{{inside}}}"


def _quote(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escape(text: str) -> str:
    """Text that the template's ``%`` leaves as it is."""
    return text.replace("%", "%%")
