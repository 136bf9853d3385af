"""Sample lines of Prometheus' text format, read fast: a series is understood once and known again by its text.

A page is read every few seconds and its series hardly change, so all that is left to do for a line is its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple


class PageError(ValueError):
    """The page cannot be read as metrics; the text says why."""


class PageTooLarge(PageError):
    """The page holds more series than any server has."""


class Sample(NamedTuple):
    """One value of a page."""

    name: str
    labels: Mapping[str, str]
    value: float
    """May be infinite or no number: pages hold such."""


_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}

BLANK = " \t\r\f\v"
"""What may stand between the parts of a line."""

UNUSUAL = re.compile(r"[^ -^`-~\t\r\f\v]")
"""What Python takes in a number and Prometheus does not: an underscore, digits and spaces of other scripts."""

SHOWN = 80
"""Characters of a page that an error repeats."""
REMEMBERED = 16384
"""Series that are remembered: a page has about 50 an engine, and replicas of one model share theirs."""
LONGEST_REMEMBERED = 1000
"""Characters of a series that is remembered, so that labels of hostile pages cannot fill the memory."""


def read_lines(lines: Iterable[str]) -> Iterator[Sample]:
    """Samples of these lines; PageError for one that is not in the format, and for a series that comes twice."""
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for line in lines:
        text, brace, rest = line.rpartition("}")
        if not brace and "{" in line:
            raise _no_metrics(line)
        if not brace:
            text, _, rest = line.partition(" ")
        name, labels, key = (_series if len(text) <= LONGEST_REMEMBERED else _series.__wrapped__)(text)
        if key in seen:
            raise PageError(f"the page holds two values for {name} with the same labels")
        seen.add(key)
        yield Sample(name, labels, _value(rest, line))


_Series = tuple[str, Mapping[str, str], tuple[str, frozenset[tuple[str, str]]]]


@lru_cache(maxsize=REMEMBERED)
def _series(text: str) -> _Series:
    """Name and labels of a line's text before its closing brace, and both as a key."""
    name, _, rest = text.partition("{")
    name = name.strip(BLANK)
    if len(name.split()) != 1:
        raise _no_metrics(text)
    labels: dict[str, str] = {}
    at = 0
    rest = rest.rstrip(BLANK)
    while at < len(rest):
        label = _LABEL.match(rest, at)
        if label is None or label[1] in labels:
            raise _no_metrics(text)
        labels[label[1]] = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), label[2])
        at = label.end()
    return name, labels, (name, frozenset(labels.items()))


def _value(rest: str, line: str) -> float:
    """The value behind a series; a time may follow it."""
    words = rest.split()
    if len(words) not in (1, 2) or UNUSUAL.search(rest):
        raise _no_metrics(line)
    try:
        value = float(words[0])
        if len(words) == 2:
            float(words[1])
    except ValueError:
        raise _no_metrics(line) from None
    return value


def _no_metrics(line: str) -> PageError:
    return PageError(f"the page is not in Prometheus' text format: {line[:SHOWN]}")
