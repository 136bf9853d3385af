"""A notification as an event for PagerDuty's Events API v2, within its limits.

https://developer.pagerduty.com/docs/events-api-v2/trigger-events/
"""

from __future__ import annotations

from datetime import datetime, timezone
from http import HTTPStatus
from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.notification import Notification, other, utc
from specwatch.alerting.text import clean, cut

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
"""PagerDuty's own address for events, which the routing key opens."""

ROUTING_KEY_LENGTH = 32
SUMMARY_LENGTH = 1024

DETAIL_LENGTH = 2000
"""Characters of any other text. JSON may take twelve bytes for one character, and with the links there are up to
sixteen such texts: 384 kB of the 512 kB that PagerDuty takes."""

MOST_LINKS = 5

_SEVERITIES = {Severity.PAGE: "critical", Severity.TICKET: "warning"}


def payload(notification: Notification, routing_key: str) -> dict[str, Any]:
    """The body of the request: a trigger, or the resolve with the same ``dedup_key``."""
    event = {
        "routing_key": routing_key,
        "event_action": "trigger" if notification.firing else "resolve",
        "dedup_key": notification.key,
    }
    return {**event, **_incident(notification)} if notification.firing else event


def accepts(status: int, body: str) -> bool:
    """Whether this answer means that the event was taken."""
    return status == HTTPStatus.ACCEPTED


def _incident(notification: Notification) -> dict[str, Any]:
    first = notification.first
    links = [
        {"href": clean(link.url), "text": _text(link.text)}
        for link in notification.links[:MOST_LINKS]
        if len(link.url) <= DETAIL_LENGTH
    ]
    return {
        "client": "specwatch",
        "links": links,
        "payload": {
            "summary": cut(clean(notification.summary), SUMMARY_LENGTH),
            "source": _text(first.target) or "unknown",
            "severity": _SEVERITIES[notification.severity],
            "timestamp": datetime.fromtimestamp(first.at, timezone.utc).isoformat(),
            "component": "speculative decoding",
            "group": _text(notification.model),
            "class": notification.alert,
            "custom_details": {
                "what to do": _text(first.description),
                **({"diagnosis": _text(notification.diagnosis)} if notification.diagnosis else {}),
                "server": _text(first.target),
                "model": _text(notification.model),
                **({"value": first.value} if first.value else {}),
                **({"alarm": notification.condition} if notification.condition else {}),
                "since": utc(first.since),
                **({"lately": notification.lately} if notification.lately else {}),
                **({"also": _text(_others(notification))} if notification.others else {}),
            },
        },
    }


def _others(notification: Notification) -> str:
    more = [f"and {notification.left_out} more"] if notification.left_out else []
    return "; ".join([*map(other, notification.others), *more])


def _text(text: str) -> str:
    return cut(clean(text), DETAIL_LENGTH)
