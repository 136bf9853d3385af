"""A notification as a message for Slack's incoming webhooks, within Slack's limits.

Label values come from outside. In Slack's markup ``&``, ``<`` and ``>`` introduce links and mentions, so these
three are escaped everywhere, and ``verbatim`` keeps Slack from finding links and names in the text by itself. So
no label can mention a channel.

Limits: https://docs.slack.dev/reference/block-kit/blocks. An escaped character counts with its full length.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.notification import Link, Notification, other, utc
from specwatch.alerting.sparkline import Course
from specwatch.alerting.text import clean, duration

HEADER_LENGTH = 150
SECTION_LENGTH = 3000

DIAGNOSIS_LENGTH = 1500
"""Two sentences, what helps and the numbers are below a thousand."""

FIELD_LENGTH = 500
"""Slack takes 2000."""

DESCRIPTION_LENGTH = 2000
OTHERS_LENGTH = 1500
"""Of the other servers of an incident, about twenty. Seven fields, a section of 3000, one of 2000 and two of 1500 stay
below a whole message's 13,000 characters."""

LINE_LENGTH = 150

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}

_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%-._~"
"""Characters that may stand in an address (RFC 3986); the rest is percent-encoded, and so cannot end the link."""

_MARKS = {(True, Severity.PAGE): "🔴", (True, Severity.TICKET): "🟠"}
_RESOLVED_MARK = "🟢"


def payload(notification: Notification) -> dict[str, Any]:
    """The body of the request."""
    title = _title(notification)
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": escaped(title, HEADER_LENGTH), "emoji": False}},
        {"type": "section", "fields": [_markup(text) for text in _fields(notification)]},
        {"type": "section", "text": _markup(escaped(notification.first.description, DESCRIPTION_LENGTH))},
    ]
    if notification.others:
        blocks.append({"type": "section", "text": _markup(_others(notification))})
    if notification.diagnosis:
        blocks.append(
            {"type": "section", "text": _markup(f"*Diagnosis*\n{escaped(notification.diagnosis, DIAGNOSIS_LENGTH)}")}
        )
    if notification.course and notification.course.line:
        blocks.append({"type": "section", "text": _markup(_course(notification.course, notification.first.target))})
    links = _links(notification.links)
    if links:
        blocks.append({"type": "section", "text": _markup(links)})
    blocks.append({"type": "context", "elements": [_markup(escaped(_small_print(notification), FIELD_LENGTH))]})
    # The text is what a phone shows before the message is opened.
    return {"text": escaped(title, FIELD_LENGTH), "blocks": blocks}


def accepts(status: int, body: str) -> bool:
    """Whether this answer means that the message was taken: Slack says so with the word ``ok``.

    A login page of some proxy also comes with status 200.
    """
    return status == HTTPStatus.OK and body.strip() == "ok"


def escaped(text: str, limit: int) -> str:
    """The text for Slack's markup, in at most ``limit`` characters and never ending within an escape."""
    pieces = [_ESCAPES.get(character, character) for character in clean(text)]
    if sum(map(len, pieces)) <= limit:
        return "".join(pieces)
    kept: list[str] = []
    room = limit - len("…")
    for piece in pieces:
        if len(piece) > room:
            break
        kept.append(piece)
        room -= len(piece)
    return "".join(kept) + "…"


def _title(notification: Notification) -> str:
    mark = _MARKS.get((notification.firing, notification.severity), _RESOLVED_MARK)
    return f"{mark} {notification.title}"


def _fields(notification: Notification) -> list[str]:
    first = notification.first
    shown = {
        "Server": first.target,
        "Model": notification.model or "unknown",
        "Value": notification.measured,
        "Since": utc(first.since),
    }
    if not notification.firing:
        lasted = duration(first.at - first.since)
        shown["Resolved"] = f"{utc(first.at)}, after {lasted}"
    return [f"*{name}*\n{escaped(text, FIELD_LENGTH - len(name) - 3)}" for name, text in shown.items() if text]


def _others(notification: Notification) -> str:
    """The other servers of the incident, a line each, as many as fit, and how many do not."""
    kept, room = ["*Also*"], OTHERS_LENGTH - len("*Also*\nand 1000000 more")
    for number, server in enumerate(notification.others):
        line = escaped(other(server), LINE_LENGTH)
        room -= len(line) + 1
        if room < 0:
            left_out = len(notification.others) - number + notification.left_out
            return "\n".join([*kept, f"and {left_out} more"])
        kept.append(line)
    return "\n".join([*kept, *([f"and {notification.left_out} more"] if notification.left_out else [])])


def _course(course: Course, target: str) -> str:
    # As code, where the bars are of one width.
    return f"*{course.title}, on {escaped(target, LINE_LENGTH)}*\n`{course.line}`"


def _links(links: Sequence[Link]) -> str:
    """Links in one line, as many as fit."""
    line = ""
    for link in links:
        address = quote(clean(link.url), safe=_URL_CHARACTERS)
        entry = f"<{escaped(address, SECTION_LENGTH)}|{escaped(link.text, FIELD_LENGTH)}>"
        longer = f"{line}  ·  {entry}" if line else entry
        if len(longer) <= SECTION_LENGTH:
            line = longer
    return line


def _small_print(notification: Notification) -> str:
    return f"specwatch · {notification.alert} · {notification.severity.value}"


def _markup(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}
