"""What people are told about an alert, whoever carries the message."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.evaluation import LABEL_LENGTH, AlertStatus, State
from specwatch.alerting.incidents import News
from specwatch.alerting.sparkline import Course
from specwatch.alerting.text import clean, cut

MOST_SERVERS = 100
"""Servers in one message; it says how many were left out."""


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
class ServerNews:
    """How the alert stands on one server. Times are Unix seconds."""

    target: str
    firing: bool
    summary: str
    description: str
    """While it fires, what it means and what to do; afterwards, why it is over."""
    value: str
    """Empty where it is not known."""
    since: float
    """When the condition began to hold."""
    at: float
    """When it fired, was last judged, or resolved."""

    @classmethod
    def of(cls, status: AlertStatus) -> ServerNews:
        """What is told of an alert that fires or has resolved."""
        return cls(
            target=status.target,
            firing=status.state is State.FIRING,
            summary=status.summary,
            description=status.description,
            value=status.value_text,
            since=status.since,
            at=status.at,
        )


@dataclass(frozen=True)
class Notification:
    """One message: an incident, an alert on the servers of a model, began, changed, or is over."""

    alert: str
    key: str
    """The same for all messages of an incident, at most KEY_LENGTH characters."""
    severity: Severity
    model: str
    condition: str
    """When the alert holds, in words: ``below 60%``; empty where it is not known."""
    first: ServerNews
    """The server that the message speaks of: it has fired for the longest, or was the last to recover."""
    others: tuple[ServerNews, ...] = ()
    """Up to MOST_SERVERS in all: those that fire, then those that do so no more since the last message."""
    left_out: int = 0
    """Servers that are too many to be listed."""
    diagnosis: str = ""
    """Why, as far as it is known, with its numbers and what helps; empty where nothing fires any more."""
    links: tuple[Link, ...] = ()
    course: Course | None = None
    """The first server's last hours, where they are known."""

    @classmethod
    def of(cls, news: News, places: Places | None = None, diagnosis: str = "") -> Notification:
        """The message about an incident."""
        statuses = [*news.firing, *reversed(news.over)]
        first, *others = statuses
        alert = first.alert
        return cls(
            alert=alert.name,
            key=news.key,
            severity=alert.severity,
            model=first.model,
            condition=first.condition_text,
            first=ServerNews.of(first),
            others=tuple(map(ServerNews.of, others[: MOST_SERVERS - 1])),
            left_out=max(len(statuses) - MOST_SERVERS, 0),
            diagnosis=diagnosis if news.firing else "",
            links=(places or Places()).links(alert.runbook),
        )

    def encoded(self) -> str:
        """As JSON, to be kept."""
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, text: str) -> Notification:
        """What ``encoded`` made the text of."""
        fields = json.loads(text)
        made = {
            "severity": Severity(fields["severity"]),
            "first": ServerNews(**fields["first"]),
            "others": tuple(ServerNews(**other) for other in fields["others"]),
            "links": tuple(Link(**link) for link in fields["links"]),
            "course": _course(fields.get("course")),
        }
        return cls(**fields | made)

    @property
    def firing(self) -> bool:
        """Whether any of it fires."""
        return self.first.firing

    @property
    def summary(self) -> str:
        """What is wrong, and where, in one sentence without its full stop."""
        alike = sum(server.firing is self.firing for server in self.others) + self.left_out
        return f"{self.first.summary}, and on {alike} more" if alike else self.first.summary

    @property
    def measured(self) -> str:
        """The value against the alarm, as far as they are known: ``50%, alarm below 60%``."""
        parts = (self.first.value, self.condition and f"alarm {self.condition}")
        return ", ".join(part for part in parts if part)

    @property
    def lately(self) -> str:
        """The last hours in a line; empty where nothing is known of them."""
        return f"{self.course.title}: {self.course.line}" if self.course and self.course.line else ""

    @property
    def title(self) -> str:
        """The message in one line."""
        return f"{'Firing' if self.firing else 'Resolved'}: {self.summary}"


def _course(fields: dict[str, Any] | None) -> Course | None:
    return Course(**fields | {"values": tuple(fields["values"])}) if fields else None


def utc(moment: float) -> str:
    """A Unix time for people: ``2026-02-03 04:05 UTC``."""
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def other(server: ServerNews) -> str:
    """One of several servers of an incident, in a line."""
    state, since = (server.value or "firing", server.since) if server.firing else ("over", server.at)
    return f"{cut(clean(server.target), LABEL_LENGTH)}: {state} since {utc(since)}"
