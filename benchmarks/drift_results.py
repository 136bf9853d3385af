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

    months: int = 20
    """On which false alarms are counted and the others are tuned; of the usual load, and of day and night."""
    others: int = 10
    """The same of each other load."""
    days: int = 30
    """Of a month."""
    steps: int | None = None
    """Scenarios, the first ones; None for all."""
    slow_days: int = 6
    """Days for a detector that is slow, instead of all that."""
    tuning_steps: int = 7
    """Of bisection."""
    trials: float = 1.0
    """Share of each scenario's trials."""
    first: int = 10_000
    """Seed of the first month and of the first trial. Constants of ours were chosen on smaller ones."""
    slow_trials: int = 10

    def seeds(self, number: int) -> range:
        """Those of so many months or trials."""
        return range(self.first, self.first + number)


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
class Judged:
    """A contender on one load's healthy months."""

    setting: Setting
    false_alarms: Sequence[int]
    """By month."""
    days: int
    """Of a month."""


@dataclass(frozen=True)
class Difference:
    """Of two contenders' delays on the same trials, one less the other."""

    mean: float
    error: float
    """Standard error of the mean."""

    @property
    def slower(self) -> bool:
        """Whether the first is slower beyond chance: by more than two standard errors."""
        return self.mean > 2 * self.error


@dataclass(frozen=True)
class Delays:
    """What a contender did in one scenario's trials."""

    by_trial: tuple[int | None, ...]
    """Intervals from change to alarm; 0 where it alarmed before the change, None where it never did."""
    longest: int
    """Intervals that were waited for."""

    @property
    def found(self) -> tuple[int | None, ...]:
        """Of the trials in which it did not alarm too early."""
        return tuple(delay for delay in self.by_trial if delay != 0)

    @property
    def too_early(self) -> int:
        """Trials in which it alarmed before the change."""
        return len(self.by_trial) - len(self.found)

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

    def less(self, other: Delays) -> Difference | None:
        """These delays less the other's, pair by pair, over the trials in which neither alarmed too early.

        None where there are fewer than two of them.
        """
        pairs = zip(self.by_trial, other.by_trial, strict=False)
        differences = [(a or self.longest) - (b or self.longest) for a, b in pairs if a != 0 and b != 0]
        if len(differences) < 2:
            return None
        return Difference(float(np.mean(differences)), float(np.std(differences, ddof=1)) / math.sqrt(len(differences)))


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

    judged: Mapping[Traffic, Mapping[str, Judged]]
    rows: Sequence[Row]
    eighth: Sequence[tuple[int | None, int, int | None]]
    """Delay on the replica that changed, alarms of the seven others, delay on the fleet's sums."""
    blindness: Sequence[tuple[str, str, str]]
    recorded: Sequence[tuple[str, str]]
