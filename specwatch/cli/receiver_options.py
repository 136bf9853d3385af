"""Who is told of alerts: options that ``specwatch sidecar`` and ``specwatch notify-test`` have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

A_FILE = click.Path(path_type=Path)

OPTIONS = (
    click.option("--slack-webhook-file", type=A_FILE, help="File holding a Slack incoming-webhook URL."),
    click.option(
        "--slack-bot-token-file", type=A_FILE, help="File holding a Slack bot's token: an incident is a thread then."
    ),
    click.option("--slack-channel", metavar="ID", help="Where the bot posts; it must be a member."),
    click.option("--slack-api-url", metavar="URL", help="Another Slack Web API (GovSlack, tests)."),
    click.option("--pagerduty-routing-key-file", type=A_FILE, help="File holding a PagerDuty Events v2 key."),
    click.option("--pagerduty-url", metavar="URL", help="Another Events v2 endpoint (EU service region, tests)."),
    click.option("--webhook-url", metavar="URL", help="Takes JSON as Alertmanager's webhooks have it."),
    click.option("--webhook-token-file", type=A_FILE, help="File holding the bearer token for that URL."),
    click.option("--alertmanager", metavar="URL", multiple=True, help="Base URL of an Alertmanager; repeat for all."),
    click.option("--alertmanager-token-file", type=A_FILE, help="File holding the bearer token for them."),
    click.option("--public-url", metavar="URL", help="How people reach this page; put into messages."),
    click.option("--runbooks-url", metavar="URL", help="Where docs/runbooks is served; put into messages."),
)


def receiver_options(command: Command) -> Command:
    """The command with these options, in this order."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
