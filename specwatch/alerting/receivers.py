"""Who gets the messages, with their secrets read from files.

A webhook's address, a routing key and a token let anybody who has them post: they come from files, never from the
command line, and are in no log line, no error and no ``repr``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from specwatch.alerting import pagerduty, slack, slack_bot, webhook
from specwatch.alerting.notification import Notification
from specwatch.alerting.secrets import Secret, check_url, read_private
from specwatch.config import SidecarConfig, is_loopback
from specwatch.errors import InputError


class Verdict(Enum):
    """What a receiver's answer means for a message."""

    TAKEN = auto()
    LATER = auto()
    """It may be taken another time."""
    NEVER = auto()


Accepts = Callable[[int, str], bool]
"""Whether an answer, by status and body, means that the message was taken."""


@dataclass(frozen=True)
class Post:
    """One request of a message: JSON for an address."""

    url: Secret
    body: Mapping[str, Any] = field(repr=False)
    judge: Callable[[int, str], Verdict] = field(repr=False)


@dataclass(frozen=True)
class Receiver:
    """Somewhere to post notifications as JSON."""

    name: str
    url: Secret
    posts: Callable[[Notification, str | None], Sequence[Post]] = field(repr=False)
    """The requests of a message, and before them what ``thread`` said of the incident's last message that was taken."""
    secrets: tuple[Secret, ...] = ()
    """What must not be repeated when the other side's answer does."""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    thread: Callable[[Notification, str, str | None], str | None] = field(repr=False, default=lambda *_: None)
    """What the incident's next message needs to know of this one: the message, the last answer, and what it knew."""

    @property
    def is_local(self) -> bool:
        """Whether messages stay on this machine."""
        return is_loopback(urlsplit(self.url.reveal()).hostname or "")

    def redact(self, text: str) -> str:
        """The text without this receiver's secrets."""
        for secret in self.secrets:
            text = text.replace(secret.reveal(), "***")
        return text


def by_status(accepts: Accepts) -> Callable[[int, str], Verdict]:
    """Judges answers of those who say by their status what went wrong."""

    def judge(status: int, body: str) -> Verdict:
        if accepts(status, body):
            return Verdict.TAKEN
        # A success that does not come from the receiver itself is some proxy's page, which may go away.
        is_temporary = status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500 or status < 300
        return Verdict.LATER if is_temporary else Verdict.NEVER

    return judge


def one_post(
    name: str,
    url: str,
    payload: Callable[[Notification], Mapping[str, Any]],
    accepts: Accepts,
    secrets: tuple[Secret, ...] = (),
    headers: Mapping[str, Secret] | None = None,
) -> Receiver:
    """A receiver that takes a message in one request."""
    address, judge = Secret(url), by_status(accepts)
    return Receiver(
        name=name,
        url=address,
        posts=lambda notification, _: [Post(address, payload(notification), judge)],
        secrets=secrets,
        headers=headers or {},
    )


def slack_receiver(webhook_file: Path) -> Receiver:
    """Slack's incoming webhook whose address is in this file; InputError when it holds none."""
    url = read_private(webhook_file, "--slack-webhook-file")
    check_url(url, str(webhook_file), "the address of a Slack webhook, https://hooks.slack.com/services/…")
    return one_post("slack", url, slack.payload, slack.accepts, _secrets_of(url))


def slack_bot_receiver(token_file: Path, channel: str | None, api_url: str = slack_bot.API_URL) -> Receiver:
    """Slack's Web API with the bot token in this file; InputError when it holds none, or without a channel."""
    token = read_private(token_file, "--slack-bot-token-file")
    if not token.startswith("xoxb-") or not token.isascii() or " " in token:
        raise InputError(f"{token_file}: expected a bot's token, which begins with xoxb-")
    if not channel or not channel.strip():
        raise InputError(
            "--slack-bot-token-file needs --slack-channel: the ID of a channel that the bot is a member of"
        )
    check_url(api_url, "--slack-api-url", f"an address such as {slack_bot.API_URL}")
    addresses = {method: Secret(f"{api_url.rstrip('/')}/{method}") for method in slack_bot.METHODS}

    def judge(status: int, body: str) -> Verdict:
        error = slack_bot.error_of(status, body)
        if error is None:
            return Verdict.TAKEN
        return Verdict.NEVER if slack_bot.is_final(error) else by_status(lambda *_: False)(status, body)

    def posts(notification: Notification, thread: str | None) -> list[Post]:
        calls = slack_bot.calls(notification, channel.strip(), thread)
        return [Post(addresses[method], body, judge) for method, body in calls]

    return Receiver(
        name="slack-bot",
        url=addresses[slack_bot.POST],
        posts=posts,
        secrets=(Secret(token),),
        headers={"Authorization": Secret(f"Bearer {token}")},
        thread=slack_bot.thread,
    )


def pagerduty_receiver(routing_key_file: Path, events_url: str = pagerduty.EVENTS_URL) -> Receiver:
    """PagerDuty's Events API v2 with the routing key in this file; InputError when it holds none."""
    key = read_private(routing_key_file, "--pagerduty-routing-key-file")
    if len(key) != pagerduty.ROUTING_KEY_LENGTH or not (key.isascii() and key.isalnum()):
        raise InputError(
            f"{routing_key_file}: a PagerDuty routing key has {pagerduty.ROUTING_KEY_LENGTH} letters and digits, this "
            f"has {len(key)} characters. Copy the Integration Key of an Events API v2 integration."
        )
    check_url(events_url, "the PagerDuty URL", f"an address such as {pagerduty.EVENTS_URL}")
    return one_post(
        "pagerduty",
        events_url,
        lambda notification: pagerduty.payload(notification, key),
        pagerduty.accepts,
        (Secret(key), Secret(events_url)),
    )


def webhook_receiver(url: str, token_file: Path | None = None) -> Receiver:
    """Whoever takes Alertmanager's webhooks; a token is sent as a bearer's."""
    check_url(url, "--webhook-url", "an address that takes Alertmanager's webhooks, https://…")
    headers = bearer(token_file, "--webhook-token-file")
    secrets = (*_secrets_of(url), *(Secret(header.reveal().partition(" ")[2]) for header in headers.values()))
    return one_post("webhook", url, webhook.payload, webhook.accepts, secrets, headers)


def receivers(config: SidecarConfig) -> tuple[Receiver, ...]:
    """The receivers that the configuration asks for; InputError for one that cannot be used."""
    found = []
    if config.slack_webhook_file is not None:
        found.append(slack_receiver(config.slack_webhook_file))
    if config.slack_bot_token_file is not None:
        api_url = config.slack_api_url or slack_bot.API_URL
        found.append(slack_bot_receiver(config.slack_bot_token_file, config.slack_channel, api_url))
    if config.pagerduty_routing_key_file is not None:
        url = config.pagerduty_url or pagerduty.EVENTS_URL
        found.append(pagerduty_receiver(config.pagerduty_routing_key_file, url))
    if config.webhook_url is not None:
        found.append(webhook_receiver(config.webhook_url, config.webhook_token_file))
    return tuple(found)


def bearer(token_file: Path | None, option: str) -> dict[str, Secret]:
    """The header that shows the token in this file; none without a file."""
    if token_file is None:
        return {}
    token = read_private(token_file, option)
    if not token.isascii():
        raise InputError(f"{option} {token_file}: it has characters that no header can hold")
    return {"Authorization": Secret(f"Bearer {token}")}


def _secrets_of(url: str) -> tuple[Secret, ...]:
    """The address, and what of it an answer may repeat."""
    path = urlsplit(url).path
    return (Secret(url), *([Secret(path)] if len(path) > 1 else []))
