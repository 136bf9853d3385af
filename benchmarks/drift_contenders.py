"""Everything that the benchmark lets compete, behind one call: counts of an interval in, "acceptance fell" out.

All see the same intervals in the same order, and all but ours see them as acceptance rates. They are told when K
changes, and start again then: only ours knows by itself, from the regime.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from river import drift
from river.drift import binary

from benchmarks.drift_traces import INTERVAL
from specwatch.signals.drift import DriftDetector

LEAST_DRAFTS = 30.0
"""Drafts below which an interval has no rate: what DriftSettings.block_drafts is for ours."""

RULE_INTERVALS = 20
"""Five minutes."""


class Contender(Protocol):
    """One detector on one stream."""

    def update(self, drafts: float, draft_tokens: float, accepted: float) -> bool:
        """Take in an interval; whether an alarm begins."""


@dataclass(frozen=True)
class Entry:
    """A detector and the one number that makes it more sensitive as it grows from ``dull`` to ``keen``."""

    name: str
    make: Callable[[float], Contender]
    dull: float = 0.0
    keen: float = 0.0
    """Equal where there is nothing to tune."""
    share: float = 1.0
    """Of the healthy months that it is tuned on: less where an interval takes it long."""
    slow: bool = False
    """Takes a quarter of a millisecond an interval, so that a few days have to do."""

    @property
    def tuned(self) -> bool:
        """Whether there is something to tune."""
        return self.dull != self.keen

    def setting(self, keenness: float) -> float:
        """The parameter at ``keenness`` from 0 to 1: geometric between two positive ends."""
        return float(self.dull * (self.keen / self.dull) ** keenness) if self.dull else 0.0


class Ours:
    """specwatch's detector as the sidecar uses it."""

    def __init__(self) -> None:
        self._detector, self._at, self._seen, self._alarmed = DriftDetector(), 0.0, 0.0, False

    def update(self, drafts: float, draft_tokens: float, accepted: float) -> bool:
        """Take in an interval."""
        self._at += INTERVAL
        before = self._alarmed
        regime = draft_tokens / drafts if drafts else None
        # Without drafts there is no telling K, and nothing to judge.
        if regime is not None:
            seconds, self._seen = self._at - self._seen, self._at
            reading = self._detector.update(self._at, seconds, drafts, draft_tokens, accepted, regime)
            self._alarmed = reading.alarmed
        return self._alarmed and not before


class Rule:
    """Rate over five minutes below a threshold for five minutes, as articles print it."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._window: deque[tuple[float, float]] = deque(maxlen=RULE_INTERVALS)
        self._tokens = self._accepted = 0.0
        self._below = 0

    def update(self, drafts: float, draft_tokens: float, accepted: float) -> bool:
        """Take in an interval."""
        if len(self._window) == RULE_INTERVALS:
            tokens, taken = self._window[0]
            self._tokens -= tokens
            self._accepted -= taken
        self._window.append((draft_tokens, accepted))
        self._tokens += draft_tokens
        self._accepted += accepted
        below = self._tokens > 0 and self._accepted < self._threshold * self._tokens
        self._below = self._below + 1 if below else 0
        return self._below == RULE_INTERVALS


class River:
    """One of river's detectors on the rate; alarms at what it finds, falls only."""

    def __init__(self, detector: Any, wrong: bool = False, both_ways: bool = False) -> None:
        self._detector, self._wrong, self._both_ways = detector, wrong, both_ways
        self._slow = self._fast = 0.0
        self._seen = 0

    def update(self, drafts: float, draft_tokens: float, accepted: float) -> bool:
        """Take in an interval."""
        if drafts < LEAST_DRAFTS:
            return False
        rate = accepted / draft_tokens
        self._seen += 1
        self._slow += (rate - self._slow) / min(self._seen, 240)
        self._fast += (rate - self._fast) / min(self._seen, 10)
        self._detector.update(1 - rate if self._wrong else rate)
        # ADWIN and KSWIN find rises too: the mean of the last intervals tells which it was.
        return bool(self._detector.drift_detected) and not (self._both_ways and self._fast >= self._slow)


OURS = "specwatch"

ENTRIES = (
    Entry(OURS, lambda setting: Ours()),
    Entry("rule 0.60", lambda setting: Rule(0.60)),
    Entry("rule, tuned", Rule, dull=0.02, keen=0.60),
    # clock=1: look for a change at every interval, not at every 32nd
    Entry(
        "ADWIN",
        lambda delta: River(drift.ADWIN(delta=delta, clock=1), both_ways=True),
        dull=1e-12,
        keen=0.5,
    ),
    # delta=0.025 (river: 0.005) is half of the five points that are to be found, the best slack for them (Page 1954).
    # alpha=1: with river's 0.9999 the sum is drawn back to what it was, and strays without end.
    Entry(
        "PageHinkley",
        lambda threshold: River(drift.PageHinkley(mode="down", delta=0.025, threshold=threshold, alpha=1.0)),
        dull=10.0,
        keen=0.2,
    ),
    # HDDM takes errors: "binary" in river, and values from 0 to 1 by its theorem (Frías-Blanco et al. 2015)
    Entry(
        "HDDM_A",
        lambda level: River(binary.HDDMA(drift_confidence=level), wrong=True),
        dull=1e-12,
        keen=0.9,
        share=0.25,
    ),
    Entry(
        "HDDM_W",
        lambda level: River(binary.HDDMW(drift_confidence=level), wrong=True),
        dull=1e-12,
        keen=0.9,
        share=0.25,
    ),
    Entry("KSWIN", lambda alpha: River(drift.KSWIN(alpha=alpha, seed=1), both_ways=True), 1e-12, 1e-3, slow=True),
)

BY_NAME = {entry.name: entry for entry in ENTRIES}
