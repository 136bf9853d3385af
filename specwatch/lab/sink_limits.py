"""What Slack and PagerDuty refuse, by their own documentation, and how they say so.

The limits are written down here again, apart from those that ``alerting`` keeps to: one mistake must not pass both.

Slack: https://docs.slack.dev/reference/block-kit/blocks and
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks. PagerDuty:
https://developer.pagerduty.com/docs/events-api-v2/overview/ and .../trigger-events/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

SLACK_MESSAGE = 13_000
"""Characters of a whole message; Slack documents none, and refuses messages of about this length."""

SLACK_BLOCKS = 50
SLACK_ATTACHMENTS = 100

PAGERDUTY_EVENT = 512_000
"""Bytes of an event: 512 kB."""

PAGERDUTY_ROUTING_KEY = 32
PAGERDUTY_DEDUP_KEY = 255
PAGERDUTY_SUMMARY = 1024
PAGERDUTY_ACTIONS = ("trigger", "acknowledge", "resolve")
PAGERDUTY_SEVERITIES = ("critical", "warning", "error", "info")

_SHOWN = frozenset({"text", "title", "pretext", "value", "footer"})
"""Keys of a Slack message whose strings people see."""


def slack_refusal(message: Any) -> str | None:
    """The body of Slack's refusal, or None for a message that it takes."""
    if not isinstance(message, dict) or not _are_objects(message.get("attachments") or []):
        return "invalid_payload"
    blocks, attachments = message.get("blocks") or [], message.get("attachments") or []
    if not (_is_text(message.get("text")) or blocks or _says_something(attachments)):
        return "no_text"
    if not _are_blocks(blocks):
        return "invalid_blocks"
    if len(attachments) > SLACK_ATTACHMENTS:
        return "too_many_attachments"
    if sum(map(len, _shown_texts(message))) > SLACK_MESSAGE:
        return "msg_blocks_too_long"
    return None


def pagerduty_errors(event: Any, size: int) -> list[str]:
    """What is wrong with an event of ``size`` bytes; empty for one that PagerDuty takes."""
    if size > PAGERDUTY_EVENT:
        return [f"Event exceeds the maximum size of {PAGERDUTY_EVENT} bytes"]
    if not isinstance(event, dict):
        return ["Event is not an object"]
    errors = list(_envelope_errors(event))
    if event.get("event_action") == "trigger":
        errors += _incident_errors(event.get("payload"))
    return errors


def _is_text(value: Any, longest: int | None = None) -> bool:
    return isinstance(value, str) and value != "" and (longest is None or len(value) <= longest)


def _are_objects(entries: Any) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)


def _says_something(attachments: list[dict[str, Any]]) -> bool:
    needed = ("text", "fallback", "title", "pretext", "blocks")
    return any(attachment.get(key) for attachment in attachments for key in needed)


def _shown_texts(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for entry in part:
            yield from _shown_texts(entry)
    elif isinstance(part, dict):
        for key, entry in part.items():
            if isinstance(entry, str):
                yield entry if key in _SHOWN else ""
            else:
                yield from _shown_texts(entry)


def _are_blocks(blocks: Any) -> bool:
    if not _are_objects(blocks) or len(blocks) > SLACK_BLOCKS:
        return False
    names = [block["block_id"] for block in blocks if "block_id" in block]
    if not all(_is_text(name, 255) for name in names) or len(set(names)) < len(names):
        return False
    return all(_BLOCKS.get(str(block.get("type")), _unknown)(block) for block in blocks)


def _unknown(block: Mapping[str, Any]) -> bool:
    return False


def _header(block: Mapping[str, Any]) -> bool:
    return _is_text_object(block.get("text"), 150, ("plain_text",))


def _section(block: Mapping[str, Any]) -> bool:
    text, fields = block.get("text"), block.get("fields")
    if text is None and fields is None:
        return False
    if text is not None and not _is_text_object(text, 3000):
        return False
    if fields is None:
        return True
    return isinstance(fields, list) and 1 <= len(fields) <= 10 and all(_is_text_object(f, 2000) for f in fields)


def _context(block: Mapping[str, Any]) -> bool:
    elements = block.get("elements")
    if not isinstance(elements, list) or not 1 <= len(elements) <= 10:
        return False
    return all(_is_text_object(element, 3000) or _is_image(element) for element in elements)


def _actions(block: Mapping[str, Any]) -> bool:
    elements = block.get("elements")
    return isinstance(elements, list) and 1 <= len(elements) <= 25 and all(map(_is_button, elements))


def _is_button(element: Any) -> bool:
    if not isinstance(element, dict) or element.get("type") != "button":
        return False
    url = element.get("url")
    return _is_text_object(element.get("text"), 75, ("plain_text",)) and (url is None or _is_text(url, 3000))


def _is_image(element: Any) -> bool:
    return isinstance(element, dict) and _is_text(element.get("image_url"), 3000) and _is_text(element.get("alt_text"))


_BLOCKS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "header": _header,
    "section": _section,
    "context": _context,
    "actions": _actions,
    "image": _is_image,
    "divider": lambda block: True,
}

_TEXT_KEYS = {"mrkdwn": {"type", "text", "verbatim"}, "plain_text": {"type", "text", "emoji"}}


def _is_text_object(text: Any, longest: int, kinds: tuple[str, ...] = ("plain_text", "mrkdwn")) -> bool:
    if not isinstance(text, dict) or text.get("type") not in kinds:
        return False
    return set(text) <= _TEXT_KEYS[text["type"]] and _is_text(text.get("text"), longest)


def _envelope_errors(event: Mapping[str, Any]) -> Iterator[str]:
    key = event.get("routing_key")
    if not _is_text(key):
        yield "'routing_key' is missing or blank"
    elif not isinstance(key, str) or len(key) != PAGERDUTY_ROUTING_KEY:
        yield f"Length of 'routing_key' is incorrect (should be {PAGERDUTY_ROUTING_KEY} characters)"
    action = event.get("event_action")
    if action not in PAGERDUTY_ACTIONS:
        yield f"'event_action' is invalid (must be one of {', '.join(PAGERDUTY_ACTIONS)})"
    if (action != "trigger" or "dedup_key" in event) and not _is_text(event.get("dedup_key"), PAGERDUTY_DEDUP_KEY):
        yield f"'dedup_key' is missing, blank or longer than {PAGERDUTY_DEDUP_KEY} characters"
    yield from _list_errors(event, "links", "href")
    yield from _list_errors(event, "images", "src")


def _list_errors(event: Mapping[str, Any], name: str, needed: str) -> Iterator[str]:
    entries = event.get(name) or []
    if not _are_objects(entries) or not all(_is_text(entry.get(needed)) for entry in entries):
        yield f"'{name}' must be a list of objects with '{needed}'"


def _incident_errors(payload: Any) -> Iterator[str]:
    if not isinstance(payload, dict):
        yield "'payload' is missing or blank"
        return
    if not _is_text(payload.get("summary"), PAGERDUTY_SUMMARY):
        yield f"'payload.summary' is missing, blank or longer than {PAGERDUTY_SUMMARY} characters"
    if not _is_text(payload.get("source")):
        yield "'payload.source' is missing or blank"
    if payload.get("severity") not in PAGERDUTY_SEVERITIES:
        yield f"'payload.severity' is invalid (must be one of {', '.join(PAGERDUTY_SEVERITIES)})"
    if not isinstance(payload.get("custom_details", {}), dict):
        yield "'payload.custom_details' must be an object"
    if "timestamp" in payload and not _is_moment(payload["timestamp"]):
        yield "'payload.timestamp' is not a time in ISO 8601"


def _is_moment(text: Any) -> bool:
    # Python 3.10 reads "+00:00" but neither "Z" nor "+0000".
    try:
        datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return False
    return True
