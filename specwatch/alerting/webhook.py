"""A notification as Alertmanager's own webhook has it, version 4, so that whoever takes those takes ours.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.notification import Notification, ServerNews
from specwatch.alerting.text import clean, cut

VERSION = "4"

NEVER = "0001-01-01T00:00:00Z"
"""``endsAt`` of what fires: Go's zero time."""

TEXT_LENGTH = 1000
"""Characters of a label or an annotation: a hundred servers with five such texts stay below two megabytes."""


def payload(notification: Notification) -> dict[str, Any]:
    """The body of the request."""
    servers = (notification.first, *notification.others)
    addresses = {link.text: link.url for link in notification.links}
    common = _common_labels(notification.alert, notification.severity, notification.model)
    return {
        "version": VERSION,
        "groupKey": notification.key,
        "truncatedAlerts": notification.left_out,
        "status": _status(notification.firing),
        "receiver": "specwatch",
        "groupLabels": {name: common[name] for name in ("alertname", "model_name")},
        "commonLabels": common,
        "commonAnnotations": _common_annotations(notification),
        "externalURL": addresses.get("Status page", ""),
        "alerts": [alert(notification, server) for server in servers],
    }


def accepts(status: int, body: str) -> bool:
    """Whether this answer means that the message was taken: any success does, as with Alertmanager."""
    return 200 <= status < 300


def alert(notification: Notification, server: ServerNews) -> dict[str, Any]:
    """One of the alerts of a webhook."""
    own = own_labels(notification.alert, notification.severity, notification.model, server.target)
    about = {"summary": to_text(server.summary), "description": to_text(server.description)}
    about |= {"value": server.value} if server.value else {}
    about |= {"lately": notification.lately} if server is notification.first and notification.lately else {}
    return {
        "status": _status(server.firing),
        "labels": own,
        "annotations": {**about, **_common_annotations(notification)},
        "startsAt": timestamp(server.since),
        "endsAt": NEVER if server.firing else timestamp(server.at),
        "generatorURL": next((link.url for link in notification.links if link.text == "Status page"), ""),
        "fingerprint": hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:16],
    }


def _common_labels(alert: str, severity: Severity, model: str) -> dict[str, str]:
    """What all alerts of an incident have in common, by the names that the generated rules use."""
    return {"alertname": alert, "severity": severity.value, "model_name": to_text(model)}


def own_labels(alert: str, severity: Severity, model: str, target: str) -> dict[str, str]:
    """What identifies an alert on a server."""
    return {**_common_labels(alert, severity, model), "instance": to_text(target)}


def timestamp(moment: float) -> str:
    """A Unix time as RFC 3339 has it."""
    return datetime.fromtimestamp(moment, timezone.utc).isoformat()


def _common_annotations(notification: Notification) -> Mapping[str, str]:
    runbook = next((link.url for link in notification.links if link.text == "Runbook"), "")
    found = {"condition": notification.condition, "runbook_url": runbook, "diagnosis": to_text(notification.diagnosis)}
    return {name: text for name, text in found.items() if text}


def _status(firing: bool) -> str:
    return "firing" if firing else "resolved"


def to_text(text: str) -> str:
    """A label's or an annotation's text: cleaned, and bounded."""
    return cut(clean(text), TEXT_LENGTH)
