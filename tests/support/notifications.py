"""A notification to change for a test, and names that no one should have."""

from __future__ import annotations

from typing import Any

import pytest

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.incidents import alert_key
from specwatch.alerting.notification import Link, Notification, ServerNews
from specwatch.alerting.sparkline import MOST_WINDOWS, Course

AT = 1_764_433_300.0
"""2025-11-29 16:21:40 UTC."""

COURSE = Course("Acceptance rate", 300.0, (0.85,) * 30 + (None,) * (MOST_WINDOWS - 34) + (0.5,) * 4)
"""Three hours, in which acceptance fell."""

FELL = "█" * 30 + "·" * (MOST_WINDOWS - 34) + "▁" * 4 + " 50.0% to 85.0%"
"""How that is drawn."""

ABSURD_NAMES = {
    "long": "x" * 10_000,
    "long and escaped": "&" * 10_000,
    "mentions": "<!channel> <!here|here> <@U024BE7LH> <#C024BE7LR> <http://evil.example|click>",
    "names": "@channel @here @everyone #general",
    "quotes": "quotes \" ' ` and \\ backslash",
    "markup": "*bold* _italic_ ~gone~ `code` :boom: > quoted",
    "control characters": "nül\x00 bell\x07 escape\x1b[31m newline\n carriage\r tab\t",
    "directions": "\u202egnp.exe \u2066isolated\u2069 \u2028line \u2029paragraph",
    "surrogate": "lone surrogate \ud800",
    "unicode": "日本語 🙂 العربية e\u0301 👩‍👩‍👧‍👦" * 500,
    "templates": "{target} {0} %s %(x)s ${HOME}",
    "nothing": "",
}

with_any_name = pytest.mark.parametrize("name", list(ABSURD_NAMES.values()), ids=list(ABSURD_NAMES))
"""Runs a test with every absurd name."""


def server_news(target: str = "gpu-3", **changes: Any) -> ServerNews:
    """How the alert stands on one server."""
    fields: dict[str, Any] = {
        "firing": True,
        "summary": f"Draft acceptance is low on {target}",
        "description": f"{target} (llama) accepts 50% of its draft tokens, below 60%. Lower K.",
        "value": "50%",
        "since": AT - 300,
        "at": AT,
    }
    return ServerNews(target, **fields | changes)


def notification(**changes: Any) -> Notification:
    """A ticket about gpu-3, with these fields changed; the key follows alert and target."""
    about_server = {key: changes.pop(key) for key in list(changes) if key in ServerNews.__dataclass_fields__}
    first = server_news(**about_server)
    fields: dict[str, Any] = {
        "alert": "SpeculativeAcceptanceRateLow",
        "severity": Severity.TICKET,
        "model": "llama",
        "condition": "below 60%",
        "first": first,
        "links": (
            Link("Runbook", "https://example.com/docs/runbooks/SpeculativeAcceptanceRateLow.md"),
            Link("Status page", "http://127.0.0.1:9108/"),
        ),
    } | changes
    return Notification(key=alert_key(fields["alert"], first.target), **fields)


def absurd(name: str, **changes: Any) -> Notification:
    """A notification about a server and a model of that name, the texts filled with it uncut."""
    return notification(
        target=name,
        model=name,
        summary=f"Low on {name}",
        description=f"{name} is low. Look.",
        course=COURSE,
        **{"diagnosis": f"Only {name} fell." if changes.get("firing", True) else ""} | changes,
    )
