"""Alerts that Prometheus alone can raise, and the one that always fires: the rest of the alert catalogue.

They compare servers or weeks, need a limit that only the rules are told, or tell of absence, which nobody reports of
himself. So the sidecar does not evaluate these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specwatch.alerting.catalogue import ALERTS, SOME_DRAFTS, Alert, Comparison, Severity

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
"""In the order in which the docs list them."""


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
    """The alert of that name, of either list; KeyError for an unknown one."""
    return _BY_NAME[name]


_BY_NAME = {entry.name: entry for entry in (*ALERTS, *WATCHDOGS)}
