"""A second reading of a metrics page, to hold the sidecar's own against: slow, strict, and made another way.

Written from Prometheus' description of its text format, character by character, with none of ``specwatch.vllm``'s
reading in it: only which series mean what is taken from there.
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specwatch.vllm.metrics import (
    DIFFUSION_SERIES,
    GAUGES,
    MAX_ENGINES,
    MAX_POSITIONS,
    POSITION_SERIES,
    SERIES,
    SPECULATION,
    START_TIME,
    V0_ACCEPTANCE,
    V0_EFFICIENCY,
    Dialect,
    Snapshot,
)
from specwatch.vllm.requests_seen import REQUEST_SERIES

DIGITS = frozenset("0123456789")
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
BLANK = " \t\r\f\v"
ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}

WANTED = frozenset(
    [
        *(name for names in SERIES.values() for name in names),
        *GAUGES.values(),
        *(POSITION_SERIES, START_TIME, V0_EFFICIENCY, V0_ACCEPTANCE, DIFFUSION_SERIES),
    ]
)


class NotTheFormat(ValueError):
    """A line that the format does not allow."""


@dataclass(frozen=True)
class Line:
    """A sample as the format gives it."""

    name: str
    labels: Mapping[str, str]
    value: float


def wanted_lines(page: str) -> Iterator[Line]:
    """The samples that specwatch reads; NotTheFormat where one of their lines is none."""
    for text in page.split("\n"):
        name = text.partition("{")[0].partition(" ")[0]
        if name in WANTED or name in REQUEST_SERIES:
            yield _Characters(text).sample()


class _Characters:
    """A line, and how far it was read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def sample(self) -> Line:
        name = self._take(LETTERS | DIGITS | {":"})
        self._skip()
        labels = dict[str, str]()
        if self._now == "{":
            self._at += 1
            self._labels(labels)
        words = self._text[self._at :].translate(dict.fromkeys(map(ord, BLANK), " ")).strip(" ").split(" ")
        words = [word for word in words if word]
        if not 1 <= len(words) <= 2:
            raise NotTheFormat(self._text)
        if len(words) == 2:
            number(words[1])
        return Line(name, labels, number(words[0]))

    def _labels(self, found: dict[str, str]) -> None:
        while True:
            self._skip()
            if self._now == "}":
                self._at += 1
                return
            name = self._take(LETTERS | DIGITS)
            self._skip()
            self._expect("=")
            self._skip()
            value = self._quoted()
            if not name or name[0] in DIGITS or name in found:
                raise NotTheFormat(self._text)
            found[name] = value
            self._skip()
            if self._now == ",":
                self._at += 1
            elif self._now != "}":
                raise NotTheFormat(self._text)

    def _quoted(self) -> str:
        self._expect('"')
        pieces = []
        while True:
            quote = self._text.find('"', self._at)
            if quote < 0:
                raise NotTheFormat(self._text)
            slash = self._text.find("\\", self._at, quote)
            end = quote if slash < 0 else slash
            pieces.append(self._text[self._at : end])
            self._at = end + 1
            if end == quote:
                return "".join(pieces)
            escaped = self._now
            if not escaped:
                raise NotTheFormat(self._text)
            pieces.append(ESCAPED.get(escaped, "\\" + escaped))
            self._at += 1

    @property
    def _now(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, allowed: frozenset[str]) -> str:
        begin = self._at
        while self._now in allowed and self._now:
            self._at += 1
        return self._text[begin : self._at]

    def _skip(self) -> None:
        while self._now and self._now in BLANK:
            self._at += 1

    def _expect(self, character: str) -> None:
        if self._now != character:
            raise NotTheFormat(self._text)
        self._at += 1


def number(text: str) -> float:
    """A number as the format writes it: decimal, NaN or infinite. NotTheFormat for anything else."""
    sign, body = (text[0], text[1:]) if text[:1] in ("+", "-") and text else ("", text)
    if body.lower() in WORDS:
        return -WORDS[body.lower()] if sign == "-" else WORDS[body.lower()]
    mantissa, mark, exponent = body.replace("E", "e").partition("e")
    whole, _, part = mantissa.partition(".")
    is_number = bool(whole + part) and set(whole + part) <= DIGITS
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if not is_number or (mark and not (power and set(power) <= DIGITS)):
        raise NotTheFormat(text)
    return float(text)


def contradictions(page: str, told: Snapshot) -> list[str]:
    """What a snapshot says of a page that the page does not say, or leaves out of what it says."""
    numbers = dict[tuple[str, str], float]()
    positions = dict[str, dict[int, float]]()
    engines = set[str]()
    for line in wanted_lines(page):
        engine = line.labels.get("engine", "0")
        if line.name in (START_TIME, *REQUEST_SERIES) or not math.isfinite(line.value):
            continue
        engines.add(engine)
        if line.name == POSITION_SERIES:
            positions.setdefault(engine, {})[int(line.labels["position"])] = line.value
        else:
            numbers[engine, line.name] = numbers.get((engine, line.name), 0.0) + line.value
    found = []
    for engine in sorted(engines | told.engines.keys()):
        shown = told.engines.get(engine)
        expected = {
            **{counter.value: _first(numbers, engine, names) for counter, names in SERIES.items()},
            **{counter.value: numbers.get((engine, name)) for counter, name in GAUGES.items()},
        }
        if told.dialect is Dialect.V0:
            expected |= dict.fromkeys((counter.value for counter in SPECULATION), None)
        said = {c.value: v for c, v in ({**shown.counters, **shown.gauges} if shown else {}).items()}
        found += [
            f"engine {engine!r}: {name} is {said.get(name)!r}, the page has {value!r}"
            for name, value in expected.items()
            if said.get(name) != value
        ]
        by_position = positions.get(engine, {})
        ladder = tuple(by_position.get(index, 0.0) for index in range(max(by_position, default=-1) + 1))
        if shown and shown.accepted_per_position != ladder:
            found.append(f"engine {engine!r}: positions are {shown.accepted_per_position}, the page has {ladder}")
    return found


def _first(numbers: Mapping[tuple[str, str], float], engine: str, names: tuple[str, ...]) -> float | None:
    return next((numbers[engine, name] for name in names if (engine, name) in numbers), None)


def has_reason_to_be_refused(page: str) -> bool:
    """Whether a page is cut off, breaks the format in a line that counts, repeats a series, or holds too much."""
    if not page.endswith("\n") or not any(map(_says_something, page.split("\n"))):
        return True
    try:
        lines = list(wanted_lines(page))
    except NotTheFormat:
        return True
    series = [(line.name, tuple(sorted(line.labels.items()))) for line in lines]
    if len(set(series)) < len(series):
        return True
    engines = {line.labels.get("engine") for line in lines}
    places = [line.labels.get("position", "") for line in lines if line.name == POSITION_SERIES]
    bounds = {line.labels.get("le", "") for line in lines if line.name.endswith("_bucket")}
    return (
        len(engines) > MAX_ENGINES
        or not all(place and set(place) <= DIGITS and int(place[:9]) < MAX_POSITIONS for place in places)
        or not all(_is_bound(bound) for bound in bounds)
    )


def _says_something(line: str) -> bool:
    """A sample, or the type of some; help and other comments say nothing."""
    if line.startswith("#"):
        return line.startswith("# TYPE ") and len(line.split(" ", 3)) == 4
    return bool(line.partition("{")[0].partition(" ")[0])


def _is_bound(text: str) -> bool:
    try:
        return not math.isnan(number(text))
    except NotTheFormat:
        return False
