"""``specwatch references``: the normals that a sidecar's drift is judged by; freeze one, or have it learned anew."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from specwatch.alerting.text import clean
from specwatch.cli import sidecar_client
from specwatch.cli.running import run
from specwatch.cli.sidecar_client import SidecarClient
from specwatch.cli.sidecar_options import Identity, identity_options

Answer = TypeVar("Answer")

SCOPES = ("server", "model", "fleet")


@dataclass(frozen=True)
class Sidecar:
    """Whom to ask, and with what right."""

    address: str
    identity: Identity

    def ask(self, question: Callable[[SidecarClient], Awaitable[Answer]]) -> Answer:
        """What it answers to one question."""

        async def ask() -> Answer:
            async with sidecar_client.sidecar(self.address, self.identity) as client:
                return await question(client)

        return run(ask())


@click.group("references", context_settings={"show_default": True})
@click.option("--sidecar", default=sidecar_client.ADDRESS, metavar="URL", help="The sidecar's address.")
@identity_options
@click.pass_context
def command(context: click.Context, sidecar: str, identity: Identity) -> None:
    """List the acceptance rates that a sidecar takes as normal, freeze them, or have them learned anew.

    A normal is learned by itself and starts over when K, method or release changes. Freeze one before a change that
    must not be taken as the new normal; relearn one after a change that was meant.
    """
    context.obj = Sidecar(sidecar, identity)


@command.command("list")
@click.pass_obj
def show(sidecar: Sidecar) -> None:
    """Every server's, every model's and the fleet's normal."""
    table = Table("scope", "name", "normal", "learned", "since", "called", box=None, pad_edge=False)
    for entry in json.loads(sidecar.ask(lambda client: client.get("references"))):
        table.add_row(*_row(entry))
    Console(markup=False, emoji=False).print(table)


@command.command("freeze")
@click.argument("scope", type=click.Choice(SCOPES))
@click.argument("name", default="")
@click.option("--as", "reference", default="frozen", metavar="NAME", help="What to call it.")
@click.pass_obj
def freeze(sidecar: Sidecar, scope: str, name: str, reference: str) -> None:
    """Keep the present normal of SCOPE NAME as it is."""
    which = {"scope": scope, "name": name, "reference": reference}
    entry = sidecar.ask(lambda client: client.post("references/freeze", which))
    click.echo(f"{_called(entry)}: {_rate(entry)} is the normal, as {reference}, until it is learned anew by hand")


@command.command("relearn")
@click.argument("scope", type=click.Choice(SCOPES))
@click.argument("name", default="")
@click.pass_obj
def relearn(sidecar: Sidecar, scope: str, name: str) -> None:
    """Take the traffic from now on as the new normal of SCOPE NAME."""
    which = {"scope": scope, "name": name}
    entry = sidecar.ask(lambda client: client.post("references/relearn", which))
    click.echo(f"{_called(entry)}: the normal is learned anew from now on")


def _row(entry: Any) -> tuple[str, ...]:
    drift = entry["drift"]
    learned = f"{drift['learned']:.0%}"
    return entry["scope"], clean(entry["name"]), _rate(entry), learned, _since(drift), drift["reference_name"] or ""


def _since(drift: Any) -> str:
    if drift["regime_since"] is None:
        return ""
    return datetime.fromtimestamp(drift["regime_since"]).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _called(entry: Any) -> str:
    return clean(f"{entry['scope']} {entry['name']}".strip())


def _rate(entry: Any) -> str:
    rate = entry["drift"]["reference"]
    return "not learned yet" if rate is None else f"{rate:.1%}"
