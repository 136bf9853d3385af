"""What Alertmanager posts to its webhooks, as the incidents that the sidecar's receivers are told of.

Bounds are those of a notification; which keys there are is Alertmanager's:
https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.incidents import alert_key
from specwatch.alerting.notification import MOST_SERVERS, Link, Notification, Places, ServerNews
from specwatch.alerting.text import clean, cut
from specwatch.alerting.watchdogs import HEARTBEAT

MOST_ALERTS = 10_000
"""In one request, which has a mebibyte at most."""

URGENT = ("page", "critical")
"""Severities that wake somebody: ours, and what most people call it."""

NAME_LENGTH = 100
"""Characters of an alert's name; ours have thirty."""

TEXT_LENGTH = 2000
URL_LENGTH = 2000

Texts = dict[str, str]


class PostedAlert(BaseModel):
    """One alert of a webhook."""

    status: Literal["firing", "resolved"]
    labels: Texts
    annotations: Texts = {}
    startsAt: datetime
    endsAt: datetime


class PostedGroup(BaseModel):
    """The body of a webhook, version 4; what else it has is not needed."""

    version: Literal["4"]
    groupKey: str
    truncatedAlerts: Annotated[int, Field(ge=0, le=10**9)] = 0
    alerts: Annotated[list[PostedAlert], Field(max_length=MOST_ALERTS)]


def notifications(group: PostedGroup, places: Places, why: Callable[[str], str], now: float) -> list[Notification]:
    """A message for every alert and model of the group; the sign of life is none.

    ``why`` gives the diagnosis of a server that is watched here, and "" for any other.
    """

    def kind(alert: PostedAlert) -> tuple[str, str]:
        return alert.labels.get("alertname", ""), alert.labels.get("model_name", "")

    found = sorted((alert for alert in group.alerts if kind(alert)[0] != HEARTBEAT.name), key=kind)
    return [_notification(group, list(alerts), places, why, now) for _, alerts in groupby(found, key=kind)]


def _notification(
    group: PostedGroup, alerts: list[PostedAlert], places: Places, why: Callable[[str], str], now: float
) -> Notification:
    # What fires comes first, the longest in front; of what is over, the last.
    alerts.sort(key=lambda alert: (alert.status != "firing", alert.startsAt.timestamp()))
    servers = [_server(alert, now) for alert in alerts]
    labels = alerts[0].labels
    name = cut(clean(labels.get("alertname", "")), NAME_LENGTH) or "alert without a name"
    model = labels.get("model_name", "")
    return Notification(
        alert=name,
        key=alert_key(name, f"{group.groupKey} {model}"),
        severity=Severity.PAGE if labels.get("severity") in URGENT else Severity.TICKET,
        model=_text(model),
        condition="",
        first=servers[0],
        others=tuple(servers[1:MOST_SERVERS]),
        left_out=max(len(servers) - MOST_SERVERS, 0) + group.truncatedAlerts,
        diagnosis=why(servers[0].target) if servers[0].firing else "",
        links=_links(alerts[0].annotations, places),
    )


def _server(alert: PostedAlert, now: float) -> ServerNews:
    is_firing = alert.status == "firing"
    name = alert.labels.get("alertname", "")
    return ServerNews(
        target=alert.labels.get("instance") or alert.labels.get("job", ""),
        firing=is_firing,
        summary=_text(alert.annotations.get("summary") or name or "an alert"),
        description=_text(alert.annotations.get("description") or "Nothing is said of what to do."),
        value=_text(alert.annotations.get("value", "")),
        since=alert.startsAt.timestamp(),
        at=now if is_firing else alert.endsAt.timestamp(),
    )


def _links(annotations: Mapping[str, str], places: Places) -> tuple[Link, ...]:
    named = (("Runbook", "runbook_url"), ("Dashboard", "dashboard_url"))
    found = [Link(text, annotations.get(key, "")) for text, key in named]
    page = [Link("Status page", places.page)] if places.page else []
    return (*(link for link in found if _is_address(link.url)), *page)


def _is_address(text: str) -> bool:
    return text.startswith(("https://", "http://")) and len(text) <= URL_LENGTH


def _text(text: str) -> str:
    return cut(clean(text), TEXT_LENGTH)
