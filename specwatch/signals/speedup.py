"""What speculation is worth: the speedup over plain decoding, from counters and the cost of a draft.

    S = (1 + A/D) / (v + k·c) = (D + A) / (v·D + c·N)

with D drafts, N draft tokens, A accepted tokens, k = N/D, c the time of one draft token ÷ the time of one plain
target step, v the time of one verifying step ÷ one plain step. No independence between positions is assumed.
With v = 1, S > 1 exactly when the acceptance rate exceeds c. (Leviathan et al. 2023, theorem 3.8, is the case of
a constant acceptance probability.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from specwatch.signals.formula import Ratio, Terms
from specwatch.vllm.metrics import Counter


class SpeedupKind(str, Enum):
    """How a speedup is known."""

    MEASURED = "measured"
    """Time per token without speculation ÷ with it, at the same batch size."""
    CALIBRATED = "calibrated"
    """From acceptance and step costs that a calibration measured on this deployment."""
    ESTIMATED = "estimated"
    """From acceptance and a draft cost that nobody measured here: an upper bound, for overhead is left out."""


MEASURED_TO_FORMULA = (0.68, 1.29)
"""Smallest and largest measured ÷ expected speedup in Leviathan et al. 2023, appendix A.3."""


@dataclass(frozen=True)
class DraftCost:
    """What drafting and verifying cost, relative to one plain decode step of the target."""

    c: float
    """One draft token."""
    v: float = 1.0
    """One verifying step; 1 while decoding is bound by memory bandwidth."""
    source: str = "assumed"
    """Where the figures come from, in words a reader of the number needs."""

    @property
    def break_even_acceptance(self) -> float | None:
        """Acceptance rate above which speculation pays at v = 1; with v > 1 it depends on k as well."""
        return self.c if self.v == 1.0 else None


ASSUMED = DraftCost(
    c=0.05,
    source="assumed: a draft token costs 5% of a target step and verifying costs no more than plain decoding",
)
"""Used when nothing is known: in Leviathan et al. 2023, A.3, measured draft costs are 0.02, 0.04 and 0.11."""


def from_parameter_counts(ratio: float) -> DraftCost:
    """Draft cost from draft parameters ÷ target parameters.

    A lower bound, and so an upper bound of the speedup: launch and scheduling overhead do not shrink with the model.
    """
    return DraftCost(c=ratio, source=f"the models' sizes: the draft has {ratio:.1%} of the target's parameters")


def given(c: float) -> DraftCost:
    """Draft cost that the user states."""
    return DraftCost(c=c, source=f"given: a draft token costs {c:.1%} of a target step")


UNDRAFTED = 0.1
"""How far mean K may lie below the number of positions for the last one to count as drafted: it was then proposed in
at least nine steps of ten. Schedules, n-gram and suffix propose less, and their last positions say nothing."""


def last_position_worth(rates: Sequence[float | None], draft_length: float | None, cost: DraftCost) -> float | None:
    """Acceptance at the last draft position ÷ cost of a draft token; None where it is not known.

    ``rates`` are unconditional, one a position, so the last is the smallest. Below 1 the position costs more than it
    brings: S = (1 + Σ rates) ÷ (v + K·c) grows without it wherever S is above 1.
    """
    known = [rate for rate in rates if rate is not None]
    if not known or draft_length is None or cost.c <= 0 or draft_length < len(known) - UNDRAFTED:
        return None
    return min(known) / cost.c


@dataclass(frozen=True)
class Speedup:
    """What speculation is worth on one server now, and how that is known.

    ``low`` and ``high`` are a 95 % interval of what the counters can tell, None where they cannot tell it yet; of an
    estimate they are the band in which published measurements fell around the formula.
    """

    value: float
    """Speed with speculation ÷ without, at today's acceptance and batch size, undrafted steps included."""
    low: float | None
    high: float | None
    kind: SpeedupKind
    source: str
    """What it rests on, in words a reader of the number needs."""
    break_even_acceptance: float | None = None
    """Acceptance rate at which speculation would neither gain nor lose, drafts as long as today's."""
    tokens_saved_per_hour: float | None = None
    """Tokens an hour more than plain decoding would have made in the same busy time; negative: fewer."""
    gpu_seconds_saved_per_hour: float | None = None
    """Accelerator seconds an hour that plain decoding would have taken beyond today's; negative: lost."""
    recommended_k: int | None = None
    """The K with the largest speedup at today's conditional rates; 0: none pays. None where it is not known."""
    recommended_speedup: float | None = None
    """What the recommended K would give."""


def speedup_formula(cost: DraftCost, at_least: Terms) -> Ratio:
    """The speedup of drafted steps for one draft cost."""
    return Ratio(
        numerator={Counter.DRAFTS: 1.0, Counter.ACCEPTED_TOKENS: 1.0},
        denominator={Counter.DRAFTS: cost.v, Counter.DRAFT_TOKENS: cost.c},
        at_least=at_least,
    )


def band(speedup: float) -> tuple[float, float]:
    """Where a measurement would fall if it strayed from the formula as far as published ones do."""
    low, high = MEASURED_TO_FORMULA
    return speedup * low, speedup * high
