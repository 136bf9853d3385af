"""Names and numbers as a terminal shows them: clean, cut by the cells they take, never a 0 for what is not known."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from specwatch.alerting.text import clean
from specwatch.sidecar.headline import shortened
from specwatch.sidecar.verdict import Tone, Verdict
from specwatch.signals.catalogue import Signal, Unit, Value
from specwatch.signals.speedup import SpeedupKind

NONE = "–"
"""A value that is not known."""

ALL = slice(None)

GAP = "  "
"""Between columns; single spaces stand within one."""

COLOURS: Mapping[Tone, str] = {Tone.BAD: "red", Tone.WARN: "yellow", Tone.GOOD: "green", Tone.QUIET: ""}
"""The sign and the word carry the meaning, the colour only repeats it."""

SIGNS: Mapping[Verdict, str] = {
    Verdict.COSTS: "▼",
    Verdict.UNREACHABLE: "✗",
    Verdict.UNREADABLE: "✗",
    Verdict.DRIFTED: "◆",
    Verdict.PAYS: "●",
}
"""The page's shapes; all others are a ring."""

RING = "○"

SHORT_KINDS = {SpeedupKind.MEASURED: "meas.", SpeedupKind.CALIBRATED: "cal.", SpeedupKind.ESTIMATED: "est."}

_INVISIBLE = frozenset({"Cf", "Co", "Cn"})
"""Unicode categories beyond those that ``clean`` takes out: signs that are not seen, or whose width nobody knows."""

_MOST_MARKS = 4
"""Characters a cell at most: accents take none of their own, and a name may pile up hundreds."""


def safe(text: str) -> str:
    """One line of signs whose width is known."""
    return "".join("" if unicodedata.category(sign) in _INVISIBLE else sign for sign in clean(text))


def name(text: str, cells: int) -> str:
    """A name in at most so many cells, the middle left out: both ends tell names apart."""
    whole = shortened(safe(text), cells * _MOST_MARKS)
    if cell_len(whole) <= cells:
        return whole
    half = (cells - 1) // 2
    end = whole[-half:] if half else ""
    while cell_len(end) > half:
        end = end[1:]
    return set_cell_size(whole, cells - 1 - cell_len(end)).rstrip() + "…" + end


def cut(text: str, cells: int) -> str:
    """A sentence in at most so many cells."""
    line = safe(text)[: cells * _MOST_MARKS]
    return line if cell_len(line) <= cells else set_cell_size(line, max(cells - 1, 0)).rstrip() + "…"


def known(value: Value, form: str, factor: float = 1.0) -> str:
    """A number by a format, or that there is none."""
    return form.format(value * factor) if isinstance(value, float) and math.isfinite(value) else NONE


def factor(value: Value, kind: SpeedupKind) -> str:
    """A speedup; an estimate is an upper bound, and shown as one."""
    return known(value, "≤ {:.2f}×" if kind is SpeedupKind.ESTIMATED else "{:.2f}×")


def per_second(value: Value) -> str:
    """Tokens a second: the digits that can be told."""
    return known(value, "{:.1f}" if isinstance(value, float) and value < 100 else "{:,.0f}")


def milliseconds(value: Value) -> str:
    """A latency."""
    return known(value, "{:.1f} ms" if isinstance(value, float) and value < 0.1 else "{:.0f} ms", 1000.0)


_BY_UNIT: Mapping[Unit, Callable[[Value], str]] = {
    Unit.RATIO: lambda value: known(value, "{:.1%}"),
    Unit.TOKENS: lambda value: known(value, "{:.2f}"),
    Unit.SECONDS: milliseconds,
    Unit.REQUESTS: lambda value: known(value, "{:.1f}"),
    Unit.TOKENS_PER_SECOND: per_second,
}


def by_signal(signal: Signal, value: Value) -> str:
    """A signal in its unit."""
    if signal.name == "estimated_speedup":
        return factor(value, SpeedupKind.ESTIMATED)
    return _BY_UNIT[signal.unit](value)


def aligned(columns: Sequence[Sequence[Text]], right: Sequence[bool], widths: Sequence[int] = ()) -> list[Text]:
    """Lines of cells under each other, without blanks at their ends; ``right`` says which columns end flush."""
    needed = widths or [width_of(column) for column in columns]
    return [_line(row, right, needed) for row in zip(*columns, strict=True)]


def width_of(column: Sequence[Text]) -> int:
    """Cells that a column takes."""
    return max(cell.cell_len for cell in column)


def _line(row: Sequence[Text], right: Sequence[bool], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True)
    for position, (cell, flush, width) in enumerate(zip(row, right, widths, strict=True)):
        blank = " " * (width - cell.cell_len)
        line.append(GAP if position else "")
        line.append_text(Text(blank) + cell if flush else cell + Text(blank))
    line.rstrip()
    return line
