"""Slack's Web API as far as a bot that posts and updates messages meets it, with its errors as documented.

https://docs.slack.dev/reference/methods/chat.postMessage and .../chat.update: errors come with status 200.
"""

from __future__ import annotations

import itertools
from typing import Any

from specwatch.lab.sink_limits import slack_refusal

CHANNEL = "C0SINKSINK"
"""ID of the one channel that there is."""

CHANNEL_NAMES = ("specwatch", "#specwatch")
"""Names by which one may post to it; an update needs the ID."""

TOKEN_BEGIN = "xoxb-"  # noqa: S105 (what a bot's token begins with)


class SlackChannel:
    """What stands in the channel."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        """By timestamp, as updated last; those of a thread have a ``thread_ts``."""
        self.is_closed = False
        """Whether the workspace's time to edit messages is over."""
        self._numbers = itertools.count(1)

    def call(self, method: str, authorization: str, arguments: Any) -> dict[str, Any]:
        """The answer to a call."""
        error = _access_error(authorization) or _argument_error(arguments)
        if error is None:
            error = self._post_error(arguments) if method == "chat.postMessage" else self._update_error(arguments)
        if error is not None:
            return {"ok": False, "error": error}
        moment = arguments["ts"] if method == "chat.update" else f"1700000000.{next(self._numbers):06}"
        before = self.messages.get(moment, {})
        self.messages[moment] = {**before, **arguments, "ts": moment}
        return {"ok": True, "channel": CHANNEL, "ts": moment, "message": self.messages[moment]}

    def _post_error(self, arguments: dict[str, Any]) -> str | None:
        if arguments["channel"] not in (CHANNEL, *CHANNEL_NAMES):
            return "channel_not_found"
        head = arguments.get("thread_ts")
        if head is not None and "thread_ts" in self.messages.get(head, {"thread_ts": ""}):
            return "invalid_arguments"  # no such message, or one of a thread: "use its parent instead"
        return slack_refusal(arguments)

    def _update_error(self, arguments: dict[str, Any]) -> str | None:
        if arguments["channel"] != CHANNEL:
            return "channel_not_found"
        if arguments.get("ts") not in self.messages:
            return "message_not_found"
        return "edit_window_closed" if self.is_closed else slack_refusal(arguments)


def _access_error(authorization: str) -> str | None:
    kind, _, token = authorization.partition(" ")
    if not token:
        return "not_authed"
    return None if kind == "Bearer" and token.startswith(TOKEN_BEGIN) else "invalid_auth"


def _argument_error(arguments: Any) -> str | None:
    if not isinstance(arguments, dict):
        return "invalid_json"
    texts = (arguments.get(key, "") for key in ("channel", "ts", "thread_ts", "text"))
    return None if all(isinstance(text, str) for text in texts) and "channel" in arguments else "invalid_arguments"
