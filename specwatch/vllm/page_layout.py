"""What stands where on a page, so that of the next one that is laid out alike only the values are left to read.

A server's pages differ in their values for hours: the same series in the same order. Whether that holds is looked at
line by line, and exactly: what is told of a page by the layout of another one is what reading it anew would tell.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from specwatch.vllm.page_lines import UNUSUAL

HELP, TYPE = "# HELP ", "# TYPE "

LONGEST = 2**19
"""Characters of a page whose layout is remembered: of one with nine engines. A quarter of a page is remembered, of a
hostile one a few times its size: of larger ones a thousand targets could fill the memory."""


class Layout:
    """How every line of a page begins, and where on it values stand."""

    def __init__(self, begins: tuple[str, ...], wanted: Sequence[int], uncounted: int) -> None:
        self.begins = begins
        """Of a wanted series its name and labels, of another one its name, a type as a whole."""
        self._wanted = tuple((number, len(begins[number])) for number in wanted)
        self._uncounted = uncounted

    @classmethod
    def of(cls, text: str, wanted: Sequence[int], uncounted: int) -> Layout | None:
        """That of a page which is in the format, with values wanted of lines of these numbers, in their order.

        Behind the first ``uncounted`` of them all are counts, which are never negative. None for a page that is too
        long, or has a line that others could not be told from by its beginning.
        """
        if len(text) > LONGEST:
            return None
        lines = text.split("\n")
        begins = [*map(_kind, lines[:-1]), ""]
        for number in wanted:
            begins[number] = _series(lines[number])
        return cls(tuple(begins), wanted, uncounted) if all(begins[:-1]) else None

    def values(self, text: str) -> list[float] | None:
        """The wanted values of a page, or None where it is another layout's, or has a value that is not usual."""
        lines = text.split("\n")
        if len(lines) != len(self.begins) or lines[-1] or not all(map(str.startswith, lines, self.begins)):
            return None
        told = [lines[number][length:] for number, length in self._wanted]
        if UNUSUAL.search("".join(told)):
            return None
        try:
            values = list(map(float, told))
        except ValueError:
            return None
        is_usual = math.isfinite(sum(values)) and min(values[self._uncounted :], default=0.0) >= 0
        return values if is_usual else None


def _kind(line: str) -> str:
    """How all lines begin that say as much as this one, which holds no wanted value; empty where nothing tells them."""
    if line.startswith("#"):
        is_help, is_type = line.startswith(HELP), line.startswith(TYPE) and line.count(" ") >= 3
        return HELP if is_help else sys.intern(line) if is_type else ""
    name = line.split("{", 1)[0].split(" ", 1)[0]
    return sys.intern(line[: len(name) + 1]) if len(line) > len(name) else ""


def _series(line: str) -> str:
    """Name and labels."""
    text, brace, _ = line.rpartition("}")
    return text + brace if brace else line.partition(" ")[0] + " "


class Places:
    """Where values stand in a list of them, and sums of several, which are put behind them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._sums: list[tuple[int, ...]] = []

    def of(self, parts: Sequence[int]) -> int:
        """The place of a value, or of the sum of several."""
        if len(parts) == 1:
            return parts[0]
        self._sums.append(tuple(parts))
        return self._count + len(self._sums) - 1

    def filled(self, values: Sequence[float]) -> list[float]:
        """The values with the sums behind them."""
        return [*values, *(sum([values[place] for place in parts]) for parts in self._sums)]
