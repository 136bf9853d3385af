"""A notification through Slack's Web API: an incident is one message, which is kept up to date, and its thread.

https://docs.slack.dev/reference/methods/chat.postMessage and .../chat.update. What happens goes into the thread, as a
message of its own; the message at its head shows how things stand. Its diagnosis stays when it is over.
"""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from specwatch.alerting import slack
from specwatch.alerting.notification import Notification

API_URL = "https://slack.com/api"

POST = "chat.postMessage"
UPDATE = "chat.update"
METHODS = (POST, UPDATE)

TEMPORARY = frozenset(
    {
        *("fatal_error", "internal_error", "ratelimited", "rate_limited", "request_timeout", "service_unavailable"),
        *("message_limit_exceeded", "team_added_to_org"),
    }
)
"""Errors after which Slack asks to try again; the others are of the message, the token or the channel."""

GONE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
"""Errors of an update that cannot be made: the thread tells what is new all the same."""

Call = tuple[str, dict[str, Any]]
"""A method and its arguments."""


def calls(notification: Notification, channel: str, thread: str | None) -> list[Call]:
    """What to ask of Slack, in this order. A repetition after a failure updates again, and replies once."""
    message = slack.payload(notification)
    if thread is None:
        return [(POST, {"channel": channel, **message})]
    head = json.loads(thread)
    # A channel's name will do to post, and only its ID to update: the answer to the first post said it.
    where = {"channel": head["channel"]}
    return [
        (UPDATE, {**where, "ts": head["ts"], **slack.payload(_at_the_head(notification, head))}),
        (POST, {**where, "thread_ts": head["ts"], **message}),
    ]


def thread(notification: Notification, answer: str, before: str | None) -> str | None:
    """What the next message of the incident needs to know: where the first one is, and why it fires."""
    head = json.loads(before) if before else json.loads(answer)
    diagnosis = notification.diagnosis or (head.get("diagnosis", "") if before else "")
    return json.dumps({"channel": head["channel"], "ts": head["ts"], "diagnosis": diagnosis})


def error_of(status: int, body: str) -> str | None:
    """What Slack says went wrong: "" for an answer that is not Slack's, None for a message that was taken."""
    try:
        answer = json.loads(body)
        if status == HTTPStatus.OK and answer["ok"] is True and _is_named(answer):
            return None
        error = answer.get("error", "")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return ""
    return None if error in GONE else str(error)


def is_final(error: str) -> bool:
    """Whether the message will never be taken."""
    return bool(error) and error not in TEMPORARY


def _is_named(answer: dict[str, Any]) -> bool:
    return isinstance(answer["channel"], str) and isinstance(answer["ts"], str)


def _at_the_head(notification: Notification, head: dict[str, Any]) -> Notification:
    return replace(notification, diagnosis=notification.diagnosis or str(head.get("diagnosis", "")))
