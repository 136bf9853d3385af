"""A server's last hours in a line of text, which every receiver can show: ``▇▇▇▇▇▆▇··▂▁▁ 1.5% to 86.2%``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specwatch.alerting.text import duration

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
"""For a window of which too little is known to say."""

MOST_WINDOWS = 36
"""Three hours of five minutes; as wide as a message on a phone."""

LEAST_SPAN = 0.2
"""Of the bars, in the unit of a share: what wanders by a point or two must not look like a fall."""


@dataclass(frozen=True)
class Course:
    """A share over the last hours: one value a window, the latest last, None where too little was known to say."""

    name: str
    window: float
    """Seconds of each."""
    values: tuple[float | None, ...]

    @property
    def title(self) -> str:
        """What is shown: ``Acceptance rate, 3 h by 5 min``."""
        return f"{self.name}, {duration(self.window * len(self._shown))} by {duration(self.window)}"

    @property
    def line(self) -> str:
        """The bars, and what their lowest and their highest stand for; empty where nothing is known."""
        known = [value for value in self._shown if value is not None]
        if not known:
            return ""
        return f"{bars(self._shown)} {min(known):.1%} to {max(known):.1%}"

    @property
    def _shown(self) -> tuple[float | None, ...]:
        return self.values[-MOST_WINDOWS:]


def bars(values: Sequence[float | None]) -> str:
    """A bar a value, from the lowest to the highest; about the middle where they are closer than LEAST_SPAN."""
    known = [value for value in values if value is not None]
    lowest, highest = min(known, default=0.0), max(known, default=0.0)
    span = max(highest - lowest, LEAST_SPAN)
    base = (lowest + highest - span) / 2
    return "".join(GAP if value is None else _bar((value - base) / span) for value in values)


def _bar(height: float) -> str:
    """From 0 to 1."""
    return BARS[min(int(height * len(BARS)), len(BARS) - 1)]
