"""The alert catalogue: every alert once, for the sidecar's own evaluation, the Prometheus rules and the docs.

Thresholds name their reason. Durations are seconds. A condition compares a signal of the signal catalogue, or
one of the sidecar's states (``STATES``), with the threshold; it holds only where there is enough traffic.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """Who is woken: a page wants somebody now, a ticket in working hours."""

    PAGE = "page"
    TICKET = "ticket"


class Comparison(str, Enum):
    """How the value is held against the threshold."""

    BELOW = "<"
    ABOVE = ">"
    AT_LEAST = ">="
    EQUALS = "=="

    def holds(self, value: float, threshold: float) -> bool:
        """Whether ``value`` stands in this relation to ``threshold``."""
        return _OPERATORS[self](value, threshold)


_OPERATORS: Mapping[Comparison, Callable[[float, float], bool]] = {
    Comparison.BELOW: operator.lt,
    Comparison.ABOVE: operator.gt,
    Comparison.AT_LEAST: operator.ge,
    Comparison.EQUALS: operator.eq,
}

STATES = {
    "target_up": "1 when the last scrape of the target gave a readable page, 0 otherwise.",
    "speculation_configured": "1 when the target exports speculation counters, 0 when it serves without.",
    "drift_score": "How far acceptance has fallen from its own normal; 1 raises the alarm.",
    "last_position_worth": "Acceptance at the last draft position ÷ cost of a draft token; below 1 it does not pay.",
    "known_speedup": "Speed with speculation ÷ without, where it was measured or calibrated; none where it is a guess.",
    "losslessness_distorted": "1 when the target's text was last found not to follow its model, 0 when it was sound.",
}
"""What an alert may compare besides signals: exported by the sidecar as ``specwatch_<name>``."""

RATE_WINDOW = 300.0
"""Seconds over which alerts look at rates: the five minutes that people ask for."""

LONG_WINDOWS = 6
"""Rate windows in the long one, half an hour: whether something lasts."""


def over_long_window(signal: str) -> str:
    """The name under which a signal over the long window is given to be judged."""
    return f"{signal} over the long window"


@dataclass(frozen=True)
class Alert:
    """One condition worth telling somebody about.

    ``summary`` and ``description`` are templates with the fields ``{target}``, ``{model}``, ``{value}`` and
    ``{threshold}``; the description says what to do. ``runbook`` is a file under docs/runbooks.
    """

    name: str
    signal: str
    comparison: Comparison
    threshold: float
    for_seconds: float
    severity: Severity
    summary: str
    description: str
    min_draft_rate: float = 0.0
    """Draft tokens a second that must flow for the alert to hold; 0: no minimum."""
    min_generation_rate: float = 0.0
    """Generated tokens a second that must flow for the alert to hold; 0: no minimum."""
    as_percentage: bool = False
    """Show value and threshold as percentages."""
    long_window: bool = False
    """The value over the long window must be past the threshold as well: a bad quarter of an hour among good ones is no
    alert."""

    @property
    def runbook(self) -> str:
        """File name of the runbook, under docs/runbooks."""
        return f"{self.name}.md"


SOME_DRAFTS = 0.5
"""Draft tokens a second: over five minutes that is 150, which is 30 drafts at K = 5 (``catalogue.MIN_DRAFTS``)."""

SOME_TOKENS = 0.5
"""Generated tokens a second below which a server counts as idle: 150 in five minutes, one short answer."""

ALERTS: tuple[Alert, ...] = (
    Alert(
        # The figure people ask for by number. It cannot be the page: all twelve configurations that Leviathan
        # et al. 2023 published, 1.4 to 3.4 times faster, have acceptance rates of 0.22 to 0.56.
        name="SpeculativeAcceptanceRateLow",
        signal="acceptance_rate",
        comparison=Comparison.BELOW,
        threshold=0.60,
        for_seconds=300.0,
        severity=Severity.TICKET,
        min_draft_rate=SOME_DRAFTS,
        as_percentage=True,
        summary="Draft acceptance is low on {target}",
        description=(
            "{target} ({model}) accepts {value} of its draft tokens, below {threshold}. The draft no longer fits "
            "the traffic, or never did. Compare with the estimated speedup before acting: a cheap draft can pay "
            "below this. If it does not pay, lower K, change the draft, or turn speculation off."
        ),
    ),
    Alert(
        name="SpeculationSlowerThanNone",
        signal="estimated_speedup",
        comparison=Comparison.BELOW,
        threshold=1.0,
        for_seconds=300.0,
        severity=Severity.PAGE,
        min_draft_rate=SOME_DRAFTS,
        long_window=True,
        summary="Speculation costs more than it gives on {target}",
        description=(
            "On {target} ({model}) decoding with speculation runs at {value} times the plain speed (alarm below "
            "{threshold}), even by an estimate that flatters. Users wait longer than they would without it. Restart "
            "with a smaller K or without speculation, then look for a draft that fits this traffic."
        ),
    ),
    Alert(
        # The estimate above flatters; this one knows what steps cost here, so it finds what load alone does.
        name="SpeculationPastBreakEven",
        signal="known_speedup",
        comparison=Comparison.BELOW,
        threshold=1.0,
        for_seconds=600.0,
        severity=Severity.PAGE,
        summary="Speculation slows {target} down, as measured",
        description=(
            "On {target} ({model}) decoding with speculation runs at {value} times the plain speed (alarm below "
            "{threshold}), by what was measured on this deployment. Load past the break-even does this, or traffic "
            "that the draft does not know: the diagnosis says which. Add replicas, or launch with the calibration's "
            "schedule."
        ),
    ),
    Alert(
        name="SpeculationDrifted",
        signal="drift_score",
        comparison=Comparison.AT_LEAST,
        threshold=1.0,
        for_seconds=0.0,
        severity=Severity.TICKET,
        summary="Draft acceptance left its normal on {target}",
        description=(
            "Acceptance on {target} ({model}) has fallen below what this server is used to, by more than its usual "
            "spread explains (score {value}, alarm at {threshold}). See whether all replicas moved together (the "
            "traffic changed) or only this one (the replica did)."
        ),
    ),
    Alert(
        name="SpeculationNotDrafting",
        signal="draft_coverage",
        comparison=Comparison.BELOW,
        threshold=0.01,
        for_seconds=600.0,
        severity=Severity.TICKET,
        min_generation_rate=SOME_TOKENS,
        as_percentage=True,
        summary="Speculation is configured but idle on {target}",
        description=(
            "{target} ({model}) generates, and only {value} of its decode steps are drafted. A dynamic schedule "
            "at K = 0, a batch above its limit, or requests that this release does not speculate do this. "
            "If it is meant to be so, raise the schedule's limit or serve without a draft and keep its memory."
        ),
    ),
    Alert(
        # S = (1 + Σ Pᵢ) / (1 + K·c): a last position that is accepted less often than c lowers S wherever S is above 1.
        name="SpeculationLastPositionsWasted",
        signal="last_position_worth",
        comparison=Comparison.BELOW,
        threshold=1.0,
        for_seconds=900.0,
        severity=Severity.TICKET,
        min_draft_rate=SOME_DRAFTS,
        summary="The last draft positions are wasted on {target}",
        description=(
            "On {target} ({model}) the last draft position brings {value} times the tokens that drafting it costs "
            "(alarm below {threshold}): K is too large for this traffic. Restart with a smaller "
            "num_speculative_tokens; acceptance by position shows where it still pays."
        ),
    ),
    Alert(
        # Output that is wrong is no matter of cost: it wakes somebody, and the check's own error rate is its duration.
        name="SpeculationDistortsOutput",
        signal="losslessness_distorted",
        comparison=Comparison.EQUALS,
        threshold=1.0,
        for_seconds=0.0,
        severity=Severity.PAGE,
        summary="{target} writes what its model does not say",
        description=(
            "{target} ({model}) was given prompts and then scored its own text: that does not follow the model, so the "
            "rejection sampler, a kernel or a sampling setting distorts it. Users get wrong answers, and acceptance "
            "cannot tell. Serve without speculation, then see with specwatch verify at which temperatures it happens."
        ),
    ),
    Alert(
        name="SpeculationTargetDown",
        signal="target_up",
        comparison=Comparison.EQUALS,
        threshold=0.0,
        for_seconds=120.0,
        severity=Severity.PAGE,
        summary="{target} cannot be scraped",
        description=(
            "The metrics of {target} have not been readable for two minutes, so nothing is known of its "
            "speculation. See whether the server runs (/health) and what the scrape reports."
        ),
    ),
)
"""In the order in which the docs list them."""


def alert(name: str) -> Alert:
    """The alert of that name; KeyError for an unknown one, and for a watchdog."""
    return _BY_NAME[name]


_BY_NAME = {entry.name: entry for entry in ALERTS}
