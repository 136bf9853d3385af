"""What is not worth telling while something else fires: the sidecar's own alerting and Alertmanager's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from specwatch.alerting.catalogue import ALERTS
from specwatch.alerting.watchdogs import WATCHDOGS


class Same(Enum):
    """What the source and its symptoms must have in common."""

    JOB = "job"
    SERVER = "server"
    MODEL = "model"


@dataclass(frozen=True)
class Inhibition:
    """While ``source`` fires, nothing is sent about ``symptoms`` on the same job, server or model."""

    source: str
    symptoms: tuple[str, ...]
    same: tuple[Same, ...]


_ABOUT_SERVERS = tuple(
    entry.name
    for entry in (*ALERTS, *WATCHDOGS)
    if entry.signal not in ("target_up", "targets_absent") and not entry.name.startswith("Specwatch")
)
"""Alerts on what servers do: without a page to read, what they said is old."""

_ABOUT_MANY = ("SpeculationBelowLastWeek", "SpeculationMetricsAbsent")
"""Those that name no server."""

_ONE_SERVER = (Same.JOB, Same.SERVER, Same.MODEL)

INHIBITIONS: tuple[Inhibition, ...] = (
    # Nothing of the job is up: that some server is not, or serves badly, is no news.
    Inhibition("SpeculationNoTargets", ("SpeculationTargetDown", *_ABOUT_SERVERS), (Same.JOB,)),
    # A server that cannot be scraped: whatever else was said about it is old.
    Inhibition(
        "SpeculationTargetDown",
        tuple(name for name in _ABOUT_SERVERS if name not in _ABOUT_MANY),
        (Same.JOB, Same.SERVER),
    ),
    # Under changed names no metric is found: the one is the reason for the other.
    Inhibition("SpeculationMetricsMangled", ("SpeculationMetricsAbsent",), (Same.JOB,)),
    # The whole model fell: that each of its servers did follows.
    Inhibition(
        "SpeculationBelowLastWeek",
        ("SpeculationDrifted", "SpeculativeAcceptanceRateLow", "SpeculationReplicaOff"),
        (Same.JOB, Same.MODEL),
    ),
    # A replica that is off: that its acceptance is low, or drifted, is the same finding.
    Inhibition("SpeculationReplicaOff", ("SpeculationDrifted", "SpeculativeAcceptanceRateLow"), _ONE_SERVER),
    # Drift is not silenced here: that acceptance was better before is news to whoever got the page.
    Inhibition(
        "SpeculationSlowerThanNone", ("SpeculativeAcceptanceRateLow", "SpeculationLastPositionsWasted"), _ONE_SERVER
    ),
    # What was measured says the same as the estimate, and better.
    Inhibition(
        "SpeculationPastBreakEven",
        ("SpeculationSlowerThanNone", "SpeculativeAcceptanceRateLow", "SpeculationLastPositionsWasted"),
        _ONE_SERVER,
    ),
    # A sidecar that is gone, or cannot be read, is not stale as well.
    Inhibition("SpecwatchSidecarDown", ("SpecwatchSidecarStale",), (Same.JOB, Same.SERVER)),
    Inhibition("SpecwatchSidecarGone", ("SpecwatchSidecarDown", "SpecwatchSidecarStale"), (Same.JOB,)),
)

Fires = Callable[[str, str | None, str | None], bool]
"""Whether an alert fires: its name, and the server and the model on which, None for any."""


def inhibited_by(alert: str, target: str, model: str, fires: Fires) -> str | None:
    """Name of an alert that fires and makes this one no news; all targets of a sidecar are one job."""
    for rule in INHIBITIONS:
        server = target if Same.SERVER in rule.same else None
        of_model = model if Same.MODEL in rule.same else None
        if alert in rule.symptoms and fires(rule.source, server, of_model):
            return rule.source
    return None
