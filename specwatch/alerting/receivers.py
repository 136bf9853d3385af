"""Who gets the messages: Slack and PagerDuty, with their secrets read from files.

A webhook's address and a routing key let anybody who has them post: they come from files, never from the command
line, and are in no log line, no error and no ``repr``.
"""

from __future__ import annotations

import logging
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specwatch.alerting import pagerduty, slack
from specwatch.alerting.notification import Notification
from specwatch.config import is_loopback
from specwatch.errors import InputError

log = logging.getLogger(__name__)

LARGEST_SECRET = 4096
"""Characters of a secret's file; a webhook's address has fewer than a hundred."""


class Secret:
    """A text that does not show itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"


@dataclass(frozen=True)
class Receiver:
    """Somewhere to post notifications as JSON."""

    name: str
    url: Secret
    payload: Callable[[Notification], dict[str, Any]] = field(repr=False)
    """Makes the body of the request."""
    accepts: Callable[[int, str], bool] = field(repr=False)
    """Whether an answer, by status and body, means that the message was taken."""
    secrets: tuple[Secret, ...] = ()
    """What must not be repeated when the other side's answer does."""

    @property
    def is_local(self) -> bool:
        """Whether messages stay on this machine."""
        return is_loopback(urlsplit(self.url.reveal()).hostname or "")

    def redact(self, text: str) -> str:
        """The text without this receiver's secrets."""
        for secret in self.secrets:
            text = text.replace(secret.reveal(), "***")
        return text


def slack_receiver(webhook_file: Path) -> Receiver:
    """Slack's incoming webhook whose address is in this file; InputError when it holds none."""
    url = _read_secret(webhook_file, "Slack's webhook address")
    _check_url(url, str(webhook_file), "the address of a Slack webhook, https://hooks.slack.com/services/…")
    path = urlsplit(url).path
    return Receiver(
        name="slack",
        url=Secret(url),
        payload=slack.payload,
        accepts=slack.accepts,
        secrets=(Secret(url), *([Secret(path)] if len(path) > 1 else [])),
    )


def pagerduty_receiver(routing_key_file: Path, events_url: str = pagerduty.EVENTS_URL) -> Receiver:
    """PagerDuty's Events API v2 with the routing key in this file; InputError when it holds none."""
    key = _read_secret(routing_key_file, "PagerDuty's routing key")
    if len(key) != pagerduty.ROUTING_KEY_LENGTH or not (key.isascii() and key.isalnum()):
        raise InputError(
            f"{routing_key_file}: a PagerDuty routing key has {pagerduty.ROUTING_KEY_LENGTH} letters and digits, this "
            f"has {len(key)} characters. Copy the Integration Key of an Events API v2 integration."
        )
    _check_url(events_url, "the PagerDuty URL", f"an address such as {pagerduty.EVENTS_URL}")
    return Receiver(
        name="pagerduty",
        url=Secret(events_url),
        payload=lambda notification: pagerduty.payload(notification, key),
        accepts=pagerduty.accepts,
        secrets=(Secret(key), Secret(events_url)),
    )


def receivers(
    slack_webhook_file: Path | None = None,
    pagerduty_routing_key_file: Path | None = None,
    pagerduty_url: str | None = None,
) -> tuple[Receiver, ...]:
    """The receivers that these settings ask for; none without a file."""
    found = []
    if slack_webhook_file is not None:
        found.append(slack_receiver(slack_webhook_file))
    if pagerduty_routing_key_file is not None:
        found.append(pagerduty_receiver(pagerduty_routing_key_file, pagerduty_url or pagerduty.EVENTS_URL))
    return tuple(found)


def _read_secret(path: Path, what: str) -> str:
    """The text of the file without surrounding space; InputError names the file and never its content."""
    try:
        readable_by_all = path.stat().st_mode & stat.S_IROTH
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST_SECRET + 1).strip()
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}. It should hold {what}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file. It should hold {what}.") from None
    if not text:
        raise InputError(f"{path}: empty. It should hold {what}.")
    if readable_by_all:
        log.warning("%s holds a secret and every user of this machine can read it: chmod 600 %s", path, path)
    return text


def _check_url(url: str, where: str, what: str) -> None:
    """InputError for what is no web address; a warning for one that sends secrets in the clear."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url or len(url) > LARGEST_SECRET:
        raise InputError(f"{where}: expected {what}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        log.warning("%s: messages and their secret leave this machine unencrypted; use https", where)
