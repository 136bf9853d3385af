"""The alert catalogue: every alert once, for the sidecar's own evaluation, the Prometheus rules and the docs.

Thresholds name their reason. Durations are seconds. A condition compares a signal of the signal catalogue, or
one of the sidecar's states (``STATES``), with the threshold; it holds only where there is enough traffic.
"""

from __future__ import annotations

import math
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

OUTSIDE_STATES = {
    "share_of_last_week": "A model's acceptance ÷ its own of a week ago, at the same K.",
    "share_of_model": "A server's acceptance at the first draft position ÷ that of all servers of the model.",
    "busiest_batch": "Running requests of the server's busiest engine, while it drafts.",
    "servers_without_metrics": "Servers that are up and export nothing usable about speculation.",
    "targets_absent": "1 when no target of vLLM's job is up, or there is none.",
    "mangled_series": "Series of a server that are called vllm_… instead of vllm:….",
    "sidecar_up": "1 when Prometheus' last scrape of the sidecar worked, 0 otherwise.",
    "sidecar_scrape_rate": "Pages a second that the sidecar asked its targets for, read from its own metrics.",
    "sidecar_absent": "1 when there was a sidecar within the last day and Prometheus knows none now.",
}
"""What takes several servers, a memory of weeks, or an observer from outside; the rules ask Prometheus."""

RATE_WINDOW = 300.0
"""Seconds over which alerts look at rates: the five minutes that people ask for."""


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
    """In the rules the value over six rate windows must be past the threshold as well: that is what lasts there, and a
    bad quarter of an hour among good ones does not."""

    @property
    def rule_for_seconds(self) -> float:
        """How long the condition holds before Prometheus fires: one rate window where a long one says it lasts."""
        return RATE_WINDOW if self.long_window else self.for_seconds

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
        for_seconds=600.0,
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


WATCHDOGS: tuple[Alert, ...] = (
    Alert(
        # A fall of α from .80 to .70 takes r from .538 to .388 at K = 5 (Leviathan et al. 2023), to 72 %: that much is
        # worth a look. By the hour of the day acceptance differs too, so the week is compared at the same hours.
        name="SpeculationBelowLastWeek",
        signal="share_of_last_week",
        comparison=Comparison.BELOW,
        threshold=0.75,
        for_seconds=3600.0,
        severity=Severity.TICKET,
        min_draft_rate=SOME_DRAFTS,
        as_percentage=True,
        summary="Acceptance of {model} is far below last week's",
        description=(
            "{model} ({target}) accepts {value} of what it did a week ago at the same K (alarm below {threshold}): "
            "its traffic changed, or something under all its servers did: a release, a draft, a sampling setting. "
            "Compare what was deployed since then, and see whether the estimated speedup still pays."
        ),
    ),
    Alert(
        # Position 0 does not depend on K, so servers of different K can be compared by it.
        name="SpeculationReplicaOff",
        signal="share_of_model",
        comparison=Comparison.BELOW,
        threshold=0.75,
        for_seconds=900.0,
        severity=Severity.TICKET,
        min_draft_rate=SOME_DRAFTS,
        as_percentage=True,
        summary="{target} accepts far less than its siblings",
        description=(
            "{target} accepts first draft tokens at {value} of the rate of all servers of {model} (alarm below "
            "{threshold}). They share the traffic, so the replica is the reason: compare its draft, flags and release "
            "with a sibling's, then restart it."
        ),
    ),
    Alert(
        # Off until somebody says where speculation stops paying: that is measured for a deployment, never assumed.
        name="SpeculationPastConcurrencyLimit",
        signal="busiest_batch",
        comparison=Comparison.ABOVE,
        threshold=math.inf,
        for_seconds=600.0,
        severity=Severity.TICKET,
        min_draft_rate=SOME_DRAFTS,
        summary="{target} still speculates past its concurrency limit",
        description=(
            "{target} ({model}) runs {value} requests at once in one engine, more than the {threshold} up to which "
            "speculation was said to pay, and still drafts. Add replicas, or give vLLM 0.24 and later a schedule that "
            "stops drafting there (num_speculative_tokens_per_batch_size)."
        ),
    ),
    Alert(
        name="SpeculationMetricsAbsent",
        signal="servers_without_metrics",
        comparison=Comparison.AT_LEAST,
        threshold=1.0,
        for_seconds=900.0,
        severity=Severity.TICKET,
        summary="No metrics of speculation from servers of {target}",
        description=(
            "{value} vLLM servers of {target} are up (alarm from {threshold}) and none exports what its speculation "
            "does, so no other alert can tell. After an upgrade the old gauges are gone and their successors may be "
            "missing: see whether speculation is configured, and --disable-log-stats is not."
        ),
    ),
    Alert(
        # A dead fleet that service discovery drops has no series, so no comparison with 0 can tell of it.
        name="SpeculationNoTargets",
        signal="targets_absent",
        comparison=Comparison.EQUALS,
        threshold=1.0,
        for_seconds=120.0,
        severity=Severity.PAGE,
        summary="No vLLM server of {target} is up",
        description=(
            "Prometheus reaches no server under {target}: all of them are down, or service discovery finds none. "
            "Either the fleet is gone, or the job was renamed: look at Status → Targets, and compare the scrape "
            "configuration with the job that the rules name."
        ),
    ),
    Alert(
        name="SpeculationMetricsMangled",
        signal="mangled_series",
        comparison=Comparison.AT_LEAST,
        threshold=1.0,
        for_seconds=300.0,
        severity=Severity.TICKET,
        summary="Metrics of {target} arrive under changed names",
        description=(
            "{value} series of {target} are called vllm_… instead of vllm:… (alarm from {threshold}), so no rule reads "
            "them. An exporter between vLLM and Prometheus answers in OpenMetrics: scrape with scrape_protocols: "
            "[PrometheusText0.0.4], or before Prometheus 2.49 rename vllm_(.+) to vllm:$1 in metric_relabel_configs."
        ),
    ),
    Alert(
        name="SpecwatchSidecarDown",
        signal="sidecar_up",
        comparison=Comparison.EQUALS,
        threshold=0.0,
        for_seconds=300.0,
        severity=Severity.TICKET,
        summary="The specwatch sidecar {target} cannot be scraped",
        description=(
            "Prometheus cannot read the sidecar {target}. Acceptance and speed are still watched by the rules; drift "
            "and the sidecar's own deliveries are not. See whether it runs (/healthz), and its log."
        ),
    ),
    Alert(
        name="SpecwatchSidecarStale",
        signal="sidecar_scrape_rate",
        comparison=Comparison.EQUALS,
        threshold=0.0,
        for_seconds=300.0,
        severity=Severity.TICKET,
        summary="The specwatch sidecar {target} reads no target any more",
        description=(
            "The sidecar {target} answers, and has asked none of its targets for a page in five minutes, so what it "
            "says of drift is old. Restart it, and keep its log."
        ),
    ),
    Alert(
        name="SpecwatchSidecarGone",
        signal="sidecar_absent",
        comparison=Comparison.EQUALS,
        threshold=1.0,
        for_seconds=900.0,
        severity=Severity.TICKET,
        summary="The specwatch sidecar vanished from Prometheus ({target})",
        description=(
            "Prometheus had a sidecar under {target} within the last day and knows none now. Drift and the sidecar's "
            "own deliveries are not watched. See whether it still runs, and whether service discovery finds it."
        ),
    ),
)
"""Alerts that Prometheus alone can raise, so the sidecar does not evaluate these: they compare servers or weeks, need a
limit that only the rules are told, or tell of absence, which nobody reports of himself."""


@dataclass(frozen=True)
class Heartbeat:
    """An alert that always fires: when it stops arriving, the way from Prometheus to people is broken."""

    name: str
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        """File name of the runbook, under docs/runbooks."""
        return f"{self.name}.md"


HEARTBEAT = Heartbeat(
    name="SpecwatchWatchdog",
    summary="The way from Prometheus to its receivers works",
    description=(
        "This always fires. Whoever expects it raises the alarm when it stops: then Prometheus, Alertmanager or what "
        "is between them is down, and no other alert can arrive."
    ),
)


def alert(name: str) -> Alert:
    """The alert of that name, a watchdog's too; KeyError for an unknown one."""
    return _BY_NAME[name]


_BY_NAME = {entry.name: entry for entry in (*ALERTS, *WATCHDOGS)}
