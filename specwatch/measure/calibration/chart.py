"""A chart of speedup by concurrency, as SVG: one line a K, with its intervals, and the line at 1 that matters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from specwatch.measure.calibration.stats import Estimate

WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 46, 44, 14, 40
"""Margins: tick labels on the left, the lines' names on the right, concurrency below."""
TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0)
"""Speedups that may stand at the axis."""
NAME_GAP = 14.0
"""Least distance of two names at the right, in the picture's units: a line of text."""
MARKS = ("circle", "square", "triangle", "diamond")
"""Each K has a shape of its own, so that no line is told by colour alone."""


@dataclass(frozen=True)
class Line:
    """The speedups of one K, by concurrency."""

    name: str
    points: tuple[tuple[int, Estimate], ...]


@dataclass(frozen=True)
class Scale:
    """Logarithmic axes: concurrency doubles, and 2 × is as far above 1 as 0.5 × is below."""

    concurrencies: tuple[int, ...]
    low: float
    high: float

    def x(self, concurrency: float) -> float:
        """Where a concurrency stands; a single one in the middle."""
        first, last = self.concurrencies[0], self.concurrencies[-1]
        share = math.log(concurrency / first) / math.log(last / first) if last > first else 0.5
        return LEFT + 14 + share * (WIDTH - LEFT - RIGHT - 28)

    def y(self, speedup: float) -> float:
        """Where a speedup stands; one beyond the axis at its end."""
        inside = min(max(speedup, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def scale(lines: Sequence[Line]) -> Scale:
    """Axes that hold all lines and 1."""
    values = [1.0]
    for line in lines:
        for _, speedup in line.points:
            values += [speedup.value, *(end for end in (speedup.low, speedup.high) if end is not None)]
    below = [tick for tick in TICKS if tick <= min(values)] or [TICKS[0]]
    above = [tick for tick in TICKS if tick >= max(values)] or [TICKS[-1]]
    concurrencies = sorted({concurrency for line in lines for concurrency, _ in line.points})
    return Scale(tuple(concurrencies), min(below[-1], 0.7), max(above[0], 1.5))


def chart(title: str, lines: Sequence[Line], axes: Scale) -> str:
    """The chart as an ``svg`` element; its style is the page's."""
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}: speedup by '
        f'concurrency">',
        *_grid(axes),
    ]
    names = _apart([(axes.y(line.points[-1][1].value), place) for place, line in enumerate(lines)])
    for place, line in enumerate(lines):
        parts += _line(line, place, axes, names[place])
    return "".join([*parts, "</svg>"])


def _grid(axes: Scale) -> list[str]:
    right = WIDTH - RIGHT
    low, high = axes.y(axes.low), axes.y(1.0)
    parts = [f'<rect class="slower" x="{LEFT}" y="{high:.1f}" width="{right - LEFT}" height="{low - high:.1f}"/>']
    for tick in TICKS:
        if axes.low <= tick <= axes.high:
            y = axes.y(tick)
            kind = "even" if tick == 1 else "grid"
            parts.append(f'<line class="{kind}" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick:g} ×</text>')
    parts += [
        f'<text class="tick" x="{axes.x(size):.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{size}</text>'
        for size in axes.concurrencies
    ]
    middle = f'x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle"'
    parts.append(f'<text class="axis" {middle}>requests at a time</text>')
    if low - high > 2 * NAME_GAP:
        parts.append(f'<text class="axis" x="{LEFT + 6}" y="{low - 6:.1f}">slower than no speculation</text>')
    return parts


def _line(line: Line, place: int, axes: Scale, name_at: float) -> list[str]:
    # Lines of several K are drawn a little apart, or their intervals would hide each other.
    shift = 3.0 * place
    spots = [(axes.x(size) + shift, axes.y(speedup.value), speedup) for size, speedup in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in spots)
    parts = [f'<g class="k{place % len(MARKS)}"><polyline class="line" points="{path}"/>']
    for (size, speedup), (x, y, _) in zip(line.points, spots, strict=True):
        if speedup.low is not None and speedup.high is not None:
            ends = f'y1="{axes.y(speedup.low):.1f}" y2="{axes.y(speedup.high):.1f}"'
            parts.append(f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" {ends}/>')
        parts.append(f"{_mark(MARKS[place % len(MARKS)], x, y)}<title>{_said(line, size, speedup)}</title></path>")
    parts.append(f'<text class="name" x="{WIDTH - RIGHT + 7}" y="{name_at + 4:.1f}">{escape(line.name)}</text></g>')
    return parts


def _mark(shape: str, x: float, y: float) -> str:
    outline = {
        "circle": f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "square": f"M{x - 3.6:.1f} {y - 3.6:.1f}h7.2v7.2h-7.2z",
        "triangle": f"M{x:.1f} {y - 4.8:.1f}l4.6 8h-9.2z",
        "diamond": f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
    }
    return f'<path class="mark" d="{outline[shape]}">'


def _said(line: Line, size: int, speedup: Estimate) -> str:
    interval = "" if speedup.low is None else f", 95 % interval {speedup.low:.2f} to {speedup.high:.2f}"
    return escape(f"{line.name} at {size}: {speedup.value:.2f} ×{interval}")


def _apart(wanted: Sequence[tuple[float, int]]) -> dict[int, float]:
    """Heights of the names, by line: where their lines end, but never on top of each other."""
    placed: dict[int, float] = {}
    last = -math.inf
    for height, place in sorted(wanted):
        last = max(height, last + NAME_GAP)
        placed[place] = last
    return placed
