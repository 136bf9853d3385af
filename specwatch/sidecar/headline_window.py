"""A server's headline window at one moment: its signals and its speedups, each worked out when somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from specwatch.signals.catalogue import MIN_DRAFTS, LazyValues
from specwatch.signals.speedup import Speedup
from specwatch.signals.window import Increments
from specwatch.signals.worth import Basis, assess


def covered(parts: Sequence[Increments]) -> float | None:
    """Seconds of a window that engines' increments really cover; None without two scrapes in it."""
    return max((part.seconds for part in parts), default=None)


@dataclass(frozen=True)
class HeadlineWindow:
    """At most scrapes alerts alone ask, and for a quarter of what there is."""

    at: float
    increments: Sequence[Increments]
    values: LazyValues
    basis: Basis

    @property
    def seconds(self) -> float | None:
        """Seconds that it covers."""
        return covered(self.increments)

    @cached_property
    def speedups(self) -> tuple[Speedup, ...]:
        """Every way in which the speedup is known, the best known first."""
        return assess(self.increments, self.basis, MIN_DRAFTS)
