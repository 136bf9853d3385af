"""What is known of one server when it is diagnosed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specwatch.signals.catalogue import Value
from specwatch.signals.course import CourseView
from specwatch.signals.drift import DriftReading
from specwatch.signals.speedup import ASSUMED, DraftCost, Speedup, SpeedupKind
from specwatch.signals.window import Increments
from specwatch.signals.workload import Shift, WorkloadReading
from specwatch.vllm.metrics import Counter, Dialect
from specwatch.vllm.requests_seen import Feature

LEAST_CHANGE = 0.03
"""Fall of the acceptance rate, in points, from which a drift is worth a reason. At K = 5 and a rate of one half, it
costs 4 % of the speed: less is lost in the noise of a load test."""


@dataclass(frozen=True)
class Evidence:
    """What is known of one server. Only the dialect must be given; what is absent is not known."""

    dialect: Dialect
    values: Mapping[str, Value] = field(default_factory=dict)
    """Signals over the window by name, as ``catalogue.evaluate`` gives them."""
    window_seconds: float = 300.0
    now: float = 0.0
    """Unix time that the findings are of."""
    engines: int = 1
    model_name: str | None = None
    cost: DraftCost = ASSUMED
    speedup: Speedup | None = None
    drift: DriftReading | None = None
    workload: WorkloadReading | None = None
    course: CourseView = field(default_factory=CourseView)
    schedule: tuple[tuple[int, int, int], ...] = ()
    """K by batch size as launched: first and last batch size, K."""
    likeness: tuple[str, float] | None = None
    """The known domain whose acceptance by position is nearest to today's, and how far: ``fingerprint.nearest``."""

    def number(self, name: str) -> float | None:
        """A scalar signal, or None without enough to say."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None

    @property
    def rate(self) -> float | None:
        """Acceptance rate now."""
        return self.number("acceptance_rate")

    @property
    def worth(self) -> float | None:
        """Speedup, as well as it is known; an estimate is the signal's, which alerts and tables show too."""
        known = self.speedup if self.speedup and self.speedup.kind is not SpeedupKind.ESTIMATED else None
        return known.value if known else self.number("estimated_speedup")

    @property
    def positions(self) -> tuple[float, ...]:
        """Unconditional acceptance by position, first one first; empty where not known."""
        rates = self.values.get("position_acceptance")
        known = rates if isinstance(rates, tuple) else ()
        return tuple(rate for rate in known if rate is not None)

    @property
    def reference(self) -> float | None:
        """Acceptance rate taken as normal."""
        return self.drift.reference if self.drift else None

    @property
    def fell(self) -> bool:
        """Whether acceptance has left its normal downwards, and surely by enough to explain."""
        if self.drift is None or not self.drift.alarmed or not self._has_lasted:
            return False
        at_least = self.drift.change_high
        return (at_least is None or at_least <= -LEAST_CHANGE) and (
            self.rate is None or (self.reference or 0.0) - self.rate >= LEAST_CHANGE
        )

    @property
    def _has_lasted(self) -> bool:
        """Whether the change is as old as the window: a younger one has no figures of its own there yet."""
        since = self.changed_at
        return since is None or self.now - since >= self.window_seconds

    @property
    def fell_slightly(self) -> bool:
        """Whether acceptance has left its normal downwards, by what hardly matters, or is back already."""
        return self.drift is not None and self.drift.alarmed and not self.fell

    @property
    def changed_at(self) -> float | None:
        """Unix time at which acceptance began to leave its normal."""
        return self.drift.since if self.drift else None

    def shift(self, feature: Feature) -> Shift | None:
        """One property of the requests where it is another than in the reference, or None."""
        shift = self.workload.shift(feature) if self.workload else None
        return shift if shift is not None and shift.shifted else None


def acceptance(work: Increments) -> float | None:
    """Accepted ÷ draft tokens."""
    return _quotient(work.get(Counter.ACCEPTED_TOKENS), work.get(Counter.DRAFT_TOKENS))


def first_position(work: Increments) -> float | None:
    """Acceptance at the first position: comparable from one K to another."""
    return first_positions(work, 1)


def first_positions(work: Increments, positions: int) -> float | None:
    """Acceptance rate over the first positions: comparable from one K to another where both have them."""
    accepted, drafts = work.accepted_per_position[:positions], work.get(Counter.DRAFTS)
    if not positions or len(accepted) < positions or drafts is None:
        return None
    return _quotient(sum(accepted), positions * drafts)


def mean_k(work: Increments) -> float | None:
    """Draft tokens a draft."""
    return _quotient(work.get(Counter.DRAFT_TOKENS), work.get(Counter.DRAFTS))


def coverage(work: Increments) -> float | None:
    """Share of decode steps that were drafted."""
    return _quotient(work.get(Counter.DRAFTS), work.get(Counter.DECODE_STEPS))


def batch_size(work: Increments) -> float | None:
    """Mean number of running requests."""
    return _quotient(work.get(Counter.RUNNING_SECONDS), work.seconds)


def step_latency(work: Increments) -> float | None:
    """Mean seconds of a decode step."""
    return _quotient(work.get(Counter.DECODE_STEP_SECONDS), work.get(Counter.DECODE_STEPS))


def _quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
