"""What the benchmark of drift runs and finds, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.drift_contenders import BY_NAME, Contender, Entry
from benchmarks.drift_scenarios import Step, Traffic


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    months: int = 40
    """Healthy ones with day and night that specwatch is judged by."""
    others: int = 4
    """Of them, and of those of steady load, those that the others are judged by; as many more they are tuned on."""
    days: int = 30
    """Of a month."""
    steps: int | None = None
    """Scenarios, the first ones; None for all."""
    slow_days: int = 6
    """Days for a detector that is slow, instead of all that."""
    tuning_steps: int = 7
    trials: float = 1.0
    """Share of each scenario's trials."""
    slow_trials: int = 10


@dataclass(frozen=True)
class Setting:
    """A contender with its parameter."""

    name: str
    parameter: float = 0.0

    @property
    def entry(self) -> Entry:
        """What it is a setting of."""
        return BY_NAME[self.name]

    def make(self) -> Contender:
        """A fresh detector."""
        return self.entry.make(self.parameter)


@dataclass(frozen=True)
class Delays:
    """What a contender did in one scenario's trials: intervals from change to alarm; None where it never came."""

    found: tuple[int | None, ...]
    too_early: int
    """Trials in which it alarmed before the change: left out of ``found``."""
    longest: int

    @property
    def mean(self) -> float:
        """Mean delay; one that never came counts as the longest that was waited for."""
        return float(np.mean([delay or self.longest for delay in self.found])) if self.found else math.nan

    @property
    def late(self) -> float:
        """95 % of the delays are no longer."""
        return float(np.percentile([delay or self.longest for delay in self.found], 95)) if self.found else math.nan

    @property
    def missed(self) -> int:
        """Trials without an alarm."""
        return sum(delay is None for delay in self.found)


@dataclass(frozen=True)
class Row:
    """One scenario."""

    step: Step
    bound: float | None
    """Lorden's, in intervals; None where acceptance changes slowly."""
    learned: float | None
    """The same for a reference that was learned as long as this one; None where the load changes."""
    delays: Mapping[str, Delays]


@dataclass(frozen=True)
class Results:
    """Everything that is printed and drawn."""

    size: Size
    settings: Mapping[Traffic, Mapping[str, Setting]]
    false_alarms: Mapping[Traffic, Mapping[str, Sequence[int]]]
    """By month."""
    rows: Sequence[Row]
    eighth: Sequence[tuple[int | None, int, int | None]]
    """Delay on the replica that changed, alarms of the seven others, delay on the fleet's sums."""
    blindness: Sequence[tuple[str, str, str]]
    recorded: Sequence[tuple[str, str]]
