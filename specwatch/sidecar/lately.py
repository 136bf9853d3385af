"""A value's last course, a value a step: what a target's row and its messages show of its past."""

from __future__ import annotations

from collections.abc import Mapping


class Lately:
    """One value for each step since 1970, the last one that was noted in it; the latest ``most`` are kept."""

    def __init__(self, step: float, most: int) -> None:
        """``step`` in seconds."""
        self.step = step
        self._most = most
        self._values: dict[int, float | None] = {}

    @property
    def seconds(self) -> float:
        """How far back it reaches."""
        return self.step * self._most

    def note(self, at: float, value: float | None) -> None:
        """Take in the value of the step that ``at``, unix seconds, is in."""
        number = int(at // self.step)
        self._values[number] = value
        for old in [earlier for earlier in self._values if earlier <= number - self._most]:
            del self._values[old]

    def recall(self, values: Mapping[float, float | None]) -> None:
        """Take in what an earlier run knew, by time; what this one knows stands."""
        self._values = {**{int(at // self.step): value for at, value in values.items()}, **self._values}

    def until(self, now: float) -> tuple[float | None, ...]:
        """Up to the step that ``now`` is in, from the first of which anything is known; at least that one."""
        last = int(now // self.step)
        first = max(min(self._values, default=last), last - self._most + 1)
        return tuple(self._values.get(number) for number in range(first, last + 1)) or (None,)
