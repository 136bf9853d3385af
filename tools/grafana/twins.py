"""Many simulated servers for the price of a few: twins that show what another server showed some scrapes ago."""

from __future__ import annotations

from collections import deque

from specwatch.lab.simulator import SimulatedServer

LONGEST_LAG = 12
"""Scrapes."""


class Original(SimulatedServer):
    """A server that remembers its last pages, one for each time that it was moved on."""

    _pages: deque[str]

    def advance(self, seconds: float) -> None:
        """Live through simulated time, and remember the page at its end."""
        if seconds > 0:
            super().advance(seconds)
            self._remembered().append(super().page())

    def page(self) -> str:
        """The newest page."""
        return self.ago(0)

    def ago(self, scrapes: int) -> str:
        """The page of so many scrapes ago, or the first one."""
        pages = self._remembered()
        return pages[max(-len(pages), -1 - scrapes)] if pages else super().page()

    def _remembered(self) -> deque[str]:
        if not hasattr(self, "_pages"):
            self._pages = deque(maxlen=LONGEST_LAG + 1)
        return self._pages


class Twin(SimulatedServer):
    """Another name for what an original showed ``lag`` scrapes ago."""

    def __init__(self, name: str, original: Original, lag: int) -> None:
        super().__init__(name, model_name=original.model_name, release=original.release, k=original.k)
        self._original = original
        self._lag = lag

    def advance(self, seconds: float) -> None:
        """Let time pass; the original lives through it."""
        self.now += seconds

    def page(self) -> str:
        """The text of /metrics."""
        return self._original.ago(self._lag)
