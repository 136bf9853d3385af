"""``specwatch notify-test``: whether messages arrive, asked before an alert has to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specwatch.cli.receiver_options import receiver_options
from specwatch.config import SidecarConfig, load
from specwatch.errors import InputError, SpecwatchError


@click.command("notify-test", context_settings={"auto_envvar_prefix": "SPECWATCH_SIDECAR"})
@receiver_options
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="The sidecar's YAML file: its receivers."
)
def command(config: Path | None, **flags: Any) -> None:
    """Send a message that says it is a test through every receiver, and say what came back.

    Options, the file and the variables SPECWATCH_SIDECAR_... are the sidecar's. The test is a ticket that fires and is
    over at once; in an Alertmanager it ends by itself after four minutes. It is tried once. Exit code 1: some receiver
    did not take it.
    """
    settings = load(SidecarConfig, config, flags)
    import socket
    import time

    from specwatch.alerting import alertmanager, trial
    from specwatch.alerting.notification import Places
    from specwatch.alerting.receivers import receivers
    from specwatch.cli.running import run

    asked, alertmanagers = receivers(settings), alertmanager.addresses(settings)
    if not asked and not alertmanagers:
        raise InputError("nobody to send a test to: give a receiver, such as --slack-webhook-file, or --config")
    places = Places(settings.public_url, settings.runbooks_url)
    answers = run(trial.send_to_all(asked, alertmanagers, places, socket.gethostname(), time.time()))
    for answer in answers:
        click.echo(f"{answer.receiver}: {answer.problem or 'taken'}")
    failed = sum(answer.problem is not None for answer in answers)
    if failed:
        raise SpecwatchError(f"{failed} of {len(answers)} receivers did not take the test")
