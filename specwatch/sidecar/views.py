"""What the sidecar shows of one target at one moment: frozen values for the API, the metrics, the page and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specwatch.collect.targets import Target
from specwatch.signals.catalogue import Value
from specwatch.signals.drift import DriftReading
from specwatch.signals.findings import Finding
from specwatch.signals.speedup import DraftCost, Speedup, SpeedupKind, last_position_worth
from specwatch.signals.window import Increments
from specwatch.signals.workload import WorkloadReading
from specwatch.vllm.metrics import Dialect


def window_label(seconds: float) -> str:
    """How a window is called: ``90s``, ``5m``, ``6h``."""
    for unit, letter in ((3600, "h"), (60, "m")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"


@dataclass(frozen=True)
class WindowView:
    """Signals over one window."""

    seconds: float | None
    """Seconds that the window really covers; None without two scrapes in it."""
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Stretch:
    """What a target did up to ``at``, unix seconds, and how it stood then: what a history is made of."""

    at: float
    did: Increments
    speedup: float | None
    """As well as it was known, over the headline window."""
    speedup_kind: SpeedupKind | None
    drift_score: float | None

    def after(self, before: Stretch) -> Stretch:
        """Both as one. A counter that one of them lacks is left out."""
        a, b = before.did, self.did
        counts = {counter: count + b.counts[counter] for counter, count in a.counts.items() if counter in b.counts}
        return replace(self, did=Increments(a.seconds + b.seconds, counts))


@dataclass(frozen=True)
class AcceptanceChange:
    """A time in which acceptance was not at its normal. Times are Unix seconds."""

    scope: str
    """``server``, ``model`` or ``fleet``."""
    name: str
    """Target or model; empty for the fleet."""
    found_at: float
    """When there was enough evidence."""
    direction: str
    """``fell`` or ``rose``."""
    began: float
    """The likeliest moment."""
    reference: float | None
    """The acceptance rate that was normal."""
    change: float | None
    """Acceptance rate less the normal: -0.1 is a fall by ten points."""
    change_low: float | None
    change_high: float | None
    """Its 95 % interval."""
    ended_at: float | None = None
    """When there was no evidence any more; None while it is under way."""


@dataclass(frozen=True)
class TargetView:
    """Everything there is to say of a target at one moment."""

    target: Target
    up: bool | None
    """None before the first scrape."""
    error: str | None
    last_scrape: float | None
    release: str | None
    dialect: Dialect | None
    model_name: str | None
    engines: int
    k: int | None
    method: str | None
    cost: DraftCost
    restarts: int
    windows: Mapping[str, WindowView]
    """By label, shortest first."""
    headline_window: str
    since_start: Mapping[str, float]
    """Acceptance since the server's start, for the V0 engine alone, which tells nothing newer."""
    drift: DriftReading
    workload: WorkloadReading
    speedups: tuple[Speedup, ...]
    """Every way in which the speedup is known over the headline window, the best known first."""
    findings: tuple[Finding, ...]
    distorted: bool | None = None
    """Whether its text was last found not to follow its model; None where that is not checked, or not known yet."""

    share_of_bound: float | None = None
    """Least time of a step by memory bandwidth and arithmetic ÷ its time, over the headline window."""

    before_change: WindowView | None = None
    """The longest window as it was when the change of acceptance under way began; None without a change."""

    @property
    def headline(self) -> WindowView:
        """The window that findings and alerts speak of."""
        return self.windows[self.headline_window]

    def states(self) -> dict[str, float | None]:
        """The values of the alert catalogue's STATES; None where unknown."""
        values = self.headline.values
        known = known_speedup(self.speedups)
        return Standing(self.up, self.dialect, values, self.cost, self.drift, known, self.distorted).states()


def speculates(dialect: Dialect | None) -> bool | None:
    """Whether a server speculates; None while its page does not tell."""
    if dialect in (Dialect.V1, Dialect.V0):
        return True
    return False if dialect is Dialect.OFF else None


@dataclass(frozen=True)
class Standing:
    """What alerts judge of a target, over the headline window."""

    up: bool | None
    dialect: Dialect | None
    values: Mapping[str, Value]
    cost: DraftCost
    drift: DriftReading
    known_speedup: float | None
    """Where it was measured or calibrated."""
    distorted: bool | None

    def states(self) -> dict[str, float | None]:
        """The values of the alert catalogue's STATES; None where unknown."""
        return {
            "target_up": _flag(self.up),
            "speculation_configured": _flag(speculates(self.dialect)),
            "drift_score": self.drift.score,
            "last_position_worth": self._last_position_worth(),
            "losslessness_distorted": _flag(self.distorted),
            "known_speedup": self.known_speedup,
        }

    def _last_position_worth(self) -> float | None:
        rates, drafted = self.values["position_acceptance"], number(self.values, "draft_length")
        return last_position_worth(rates, drafted, self.cost) if isinstance(rates, tuple) else None


def known_speedup(speedups: Sequence[Speedup]) -> float | None:
    """The speedup where it was measured or calibrated; None where it is a guess."""
    return speedups[0].value if speedups and speedups[0].kind is not SpeedupKind.ESTIMATED else None


def _flag(truth: bool | None) -> float | None:
    return None if truth is None else float(truth)


def number(values: Mapping[str, Value], name: str) -> float | None:
    """A scalar signal, or None without enough to say."""
    value = values[name]
    return value if isinstance(value, float) else None
