"""A target's acceptance over the last hours, a value a window: what messages show of its past."""

from __future__ import annotations

from collections.abc import Mapping

from specwatch.alerting.sparkline import MOST_WINDOWS, Course


class Lately:
    """One value for each window since 1970, the last one that was noted in it; the latest MOST_WINDOWS are kept."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._values: dict[int, float | None] = {}

    @property
    def seconds(self) -> float:
        """How far back it reaches."""
        return self._window * MOST_WINDOWS

    def note(self, at: float, value: float | None) -> None:
        """Take in the value over the window up to ``at``, unix seconds."""
        number = int(at // self._window)
        self._values[number] = value
        for old in [earlier for earlier in self._values if earlier <= number - MOST_WINDOWS]:
            del self._values[old]

    def recall(self, values: Mapping[float, float | None]) -> None:
        """Take in what an earlier run knew, by time; what this one knows stands."""
        self._values = {**{int(at // self._window): value for at, value in values.items()}, **self._values}

    def course(self, now: float) -> Course:
        """Up to ``now``, from the first window of which anything is known."""
        last = int(now // self._window)
        first = max(min(self._values, default=last), last - MOST_WINDOWS + 1)
        values = tuple(self._values.get(number) for number in range(first, last + 1))
        return Course("Acceptance rate", self._window, values)
