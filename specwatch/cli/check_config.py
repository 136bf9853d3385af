"""``specwatch check-config``: what is wrong with a sidecar's configuration file, or what it would do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specwatch.errors import InputError

if TYPE_CHECKING:
    from specwatch.sidecar.config_check import Promise

MOST_SHOWN = 20
"""Servers that are listed; the others are counted."""


@click.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def command(file: Path) -> None:
    """Say everything that is wrong with a sidecar's configuration FILE, or what a sidecar would do with it.

    Every mistake is told at once, with its line. Files that FILE names are read, as the user that runs this; nothing is
    asked of the network. Options and variables that a sidecar is started with besides are not seen. Exit code 0: it can
    be used; 2: it cannot.
    """
    from specwatch.sidecar.config_check import check

    logging.basicConfig(level=logging.WARNING, format="specwatch: warning: %(message)s", force=True)
    problems, promise = check(file)
    if promise is None:
        many = "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        lines = [f"line {problem.line}: {problem.text}" if problem.line else problem.text for problem in problems]
        raise InputError("\n  ".join([f"{file}: {many}", *lines]))
    for line in told(promise):
        click.echo(line)


def told(promise: Promise) -> list[str]:
    """What the sidecar would do, in words."""
    config = promise.config
    servers = "1 server" if len(promise.targets) == 1 else f"{len(promise.targets)} servers"
    shown = [f"  {target.name}  {target.url}" for target in promise.targets[:MOST_SHOWN]]
    more = len(promise.targets) - MOST_SHOWN
    return [
        f"{f'asks {promise.asks}' if promise.asks else f'watches {servers}'} every {promise.interval:g} s",
        *shown,
        *([f"  and {more} more"] if more > 0 else []),
        *(f"looks for servers in {source}" for source in dict.fromkeys(promise.sources)),
        f"tells {_listed(promise.receivers)}" if promise.receivers else "tells nobody of alerts: it shows them",
        f"keeps its state in {config.database}" if config.database else "keeps its state in memory",
        f"serves {'https' if config.tls_cert_file else 'http'}://{config.listen}, to {_readers(promise)}",
    ]


def _readers(promise: Promise) -> str:
    from specwatch.config import is_loopback, split_address

    config = promise.config
    asked = [
        *(["a token"] if config.read_token_file or config.admin_token_file else []),
        *(["a certificate"] if config.client_ca_file else []),
    ]
    reach = "this machine alone" if is_loopback(split_address(config.listen)[0]) else "every machine that reaches it"
    return f"whoever has {_listed(asked)}, from {reach}" if asked else reach


def _listed(words: Sequence[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
