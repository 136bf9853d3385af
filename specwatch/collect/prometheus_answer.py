"""Reading the answer to a range of raw samples, series by series: a whole fleet's at once would fill the memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from specwatch.collect.http import Cause, ScrapeError

Series = tuple[dict[str, str], list[tuple[float, float]]]
"""Labels, the name among them, and samples as Unix seconds and value."""

_RESULT = re.compile(r'"result"\s*:\s*\[\s*')
"""Inside of a text the second quote would stand behind a backslash, so this is the key."""
_BETWEEN = re.compile(r"\s*(,?)\s*")
_DECODER = json.JSONDecoder()


class Matrix:
    """The series of an answer, to be read once; ScrapeError where it is none."""

    def __init__(self, body: bytes, url: str) -> None:
        self.size = len(body)
        """Bytes."""
        self.warnings: tuple[str, ...] = ()
        """Why the answer may lack something: known once all series are read."""
        self._url = url
        try:
            self._text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise self._unreadable("not text") from None

    def __iter__(self) -> Iterator[Series]:
        """Every series that has samples."""
        text, found = self._text, _RESULT.search(self._text)
        if found is None:
            raise self._unreadable("no result in it: is this the URL of a Prometheus?")
        at = found.end()
        while text[at : at + 1] != "]":
            try:
                entry, at = _DECODER.raw_decode(text, at)
                labels, samples = _series(entry)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                raise self._unreadable("a series in it is none, or it was cut off on the way") from None
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if samples:
                yield labels, samples
        self._look_around(text[: found.end()] + text[at:])

    def _look_around(self, rest: str) -> None:
        """Take in what stands around the series."""
        try:
            told = json.loads(rest)
            kind = told["data"]["resultType"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._unreadable("it was cut off on the way") from None
        if kind != "matrix":
            raise self._unreadable(f"it is a {str(kind)[:20]!r} where a matrix was asked for")
        warnings = told.get("warnings") or told["data"].get("warnings") or ()
        partial = ["it says that the answer is partial"] if told.get("isPartial") is True else []
        self.warnings = (*(str(warning)[:300] for warning in warnings), *partial)

    def _unreadable(self, why: str) -> ScrapeError:
        return ScrapeError(f"{self._url}: the answer cannot be read: {why}", Cause.PAGE)


def _series(entry: Any) -> Series:
    """Labels and samples; raises for what is no series. One of native histograms has none of the samples read here."""
    labels: dict[str, str] = entry["metric"]
    "".join(labels.values())  # which refuses what is no text
    return labels, [(float(at), float(value)) for at, value in entry.get("values", ())]
