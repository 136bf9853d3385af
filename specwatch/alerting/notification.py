"""What people are told about an alert, whoever carries the message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.evaluation import AlertStatus, State

KEY_LENGTH = 255
"""Longest key that identifies an alert: PagerDuty's limit of a ``dedup_key``."""


@dataclass(frozen=True)
class Link:
    """Somewhere to read on."""

    text: str
    url: str


@dataclass(frozen=True)
class Places:
    """Where the links of a message lead; None leaves a link out."""

    page: str | None = None
    """Address of the sidecar's page."""
    runbooks: str | None = None
    """Address of the folder that holds the runbooks, as people reach it."""

    def runbook(self, name: str) -> str | None:
        """Address of a runbook, where they are published."""
        return f"{self.runbooks.rstrip('/')}/{name}" if self.runbooks else None

    def links(self, runbook: str) -> tuple[Link, ...]:
        """The links about an alert with this runbook."""
        found = []
        address = self.runbook(runbook)
        if address:
            found.append(Link("Runbook", address))
        if self.page:
            found.append(Link("Status page", self.page))
        return tuple(found)


@dataclass(frozen=True)
class Notification:
    """One message: an alert on a target began to fire, or is over. Times are Unix seconds."""

    alert: str
    key: str
    """The same for the firing and the resolved message of an alert on a target, at most KEY_LENGTH characters."""
    firing: bool
    severity: Severity
    target: str
    model: str
    summary: str
    description: str
    """While it fires, what it means and what to do; afterwards, why it is over."""
    value: str
    condition: str
    """When the alert holds, in words: ``below 60%``."""
    since: float
    """When the condition began to hold."""
    at: float
    """When it fired or resolved."""
    diagnosis: str = ""
    """Why, as far as it is known, with its numbers and what helps; empty for a resolved message."""
    links: Sequence[Link] = ()

    @classmethod
    def of(cls, status: AlertStatus, places: Places | None = None, diagnosis: str = "") -> Notification:
        """The message about an alert that fires or has resolved."""
        alert = status.alert
        return cls(
            alert=alert.name,
            key=alert_key(alert.name, status.target),
            firing=status.state is State.FIRING,
            severity=alert.severity,
            target=status.target,
            model=status.model,
            summary=status.summary,
            description=status.description,
            value=status.value_text,
            condition=status.condition_text,
            since=status.since,
            at=status.at,
            diagnosis=diagnosis if status.state is State.FIRING else "",
            links=(places or Places()).links(alert.runbook),
        )

    @property
    def title(self) -> str:
        """The message in one line."""
        return f"{'Firing' if self.firing else 'Resolved'}: {self.summary}"


def alert_key(alert: str, target: str) -> str:
    """What identifies an alert on a target; a name that is too long or not printable goes in as its digest."""
    key = f"specwatch/{alert}/{target}"
    if len(key) <= KEY_LENGTH and key.isprintable():
        return key
    digest = hashlib.sha256(target.encode(errors="backslashreplace")).hexdigest()
    return f"specwatch/{alert}/sha256:{digest}"


def utc(moment: float) -> str:
    """A Unix time for people: ``2026-02-03 04:05 UTC``."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
