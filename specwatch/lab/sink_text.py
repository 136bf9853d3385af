"""A received Slack message or PagerDuty event as a person reads it, for a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from specwatch.alerting.text import clean, cut

LINE_LENGTH = 500
MOST_LINES = 40

_LINK = re.compile(r"<([^<>|]+)\|([^<>]*)>")
_BARE_LINK = re.compile(r"<([^<>|]+)>")
_FIELD = re.compile(r"\*([^*\n]+)\*\n")


@dataclass(frozen=True)
class MessageText:
    """One message: safe to print, whatever was in it."""

    title: str
    lines: tuple[str, ...]


def slack_text(message: dict[str, Any]) -> MessageText:
    """A webhook's message, made of blocks or, as Alertmanager sends them, of attachments."""
    titles = [*_block_titles(message), *_attachment_titles(message), _plain(_string(message, "text"))]
    lines = [*_block_lines(message), *_attachment_lines(message)]
    return _message(next((title for title in titles if title), ""), lines)


def pagerduty_text(event: dict[str, Any]) -> MessageText:
    """An event of the Events API v2."""
    action = _string(event, "event_action")
    payload = event.get("payload")
    if action != "trigger" or not isinstance(payload, dict):
        # Alertmanager sends the summary along with a resolve; PagerDuty asks for the key alone.
        what = _string(payload, "summary") if isinstance(payload, dict) else _string(event, "dedup_key")
        return _message(f"{action}: {what}", [])
    lines = [f"source: {_string(payload, 'source')}"]
    for name, value in (payload.get("custom_details") or {}).items():
        lines.append(f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}")
    lines += [f"{_string(link, 'text') or 'link'}: {_string(link, 'href')}" for link in _objects(event, "links")]
    return _message(f"trigger, {_string(payload, 'severity')}: {_string(payload, 'summary')}", lines)


def _message(title: str, texts: list[str]) -> MessageText:
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    shown = [cut(clean(line).rstrip(), LINE_LENGTH) for line in lines[:MOST_LINES]]
    return MessageText(cut(clean(title), LINE_LENGTH), tuple(shown))


def _plain(markup: str) -> str:
    """Slack's markup without its marks: links written out, escapes undone."""
    text = _FIELD.sub(r"\1: ", markup)
    text = _BARE_LINK.sub(r"\1", _LINK.sub(r"\2: \1", text))
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _block_titles(message: dict[str, Any]) -> Iterator[str]:
    for block in _objects(message, "blocks"):
        if block.get("type") == "header":
            yield from _texts(block)


def _block_lines(message: dict[str, Any]) -> Iterator[str]:
    for block in _objects(message, "blocks"):
        if block.get("type") != "header":
            yield from _texts(block)


def _texts(block: dict[str, Any]) -> Iterator[str]:
    text = block.get("text")
    own = [text] if isinstance(text, dict) else []
    for entry in (*own, *_objects(block, "fields"), *_objects(block, "elements")):
        yield _plain(_string(entry, "text"))


def _attachment_titles(message: dict[str, Any]) -> Iterator[str]:
    for attachment in _objects(message, "attachments"):
        for key in ("title", "pretext", "fallback"):
            yield _plain(_string(attachment, key))


def _attachment_lines(message: dict[str, Any]) -> Iterator[str]:
    for attachment in _objects(message, "attachments"):
        yield from (_plain(_string(attachment, key)) for key in ("pretext", "text"))
        for field in _objects(attachment, "fields"):
            yield f"{_plain(_string(field, 'title'))}: {_plain(_string(field, 'value'))}"
        for action in _objects(attachment, "actions"):
            yield f"{_string(action, 'text')}: {_string(action, 'url')}"
        if attachment.get("title_link"):
            yield f"link: {_string(attachment, 'title_link')}"


def _objects(part: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = part.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _string(part: dict[str, Any], key: str) -> str:
    value = part.get(key)
    return value if isinstance(value, str) else ""
