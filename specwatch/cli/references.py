"""``specwatch references``: the normals that a sidecar's drift is judged by; freeze one, or have it learned anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import requests
from rich.console import Console
from rich.table import Table

from specwatch.errors import InputError, SpecwatchError

SCOPES = ("server", "model", "fleet")
ANSWER_SECONDS = 10.0
"""Longest to wait: the sidecar answers from memory."""


@click.group("references", context_settings={"show_default": True})
@click.option("--sidecar", default="http://127.0.0.1:9108", metavar="URL", help="The sidecar's address.")
@click.pass_context
def command(context: click.Context, sidecar: str) -> None:
    """List the acceptance rates that a sidecar takes as normal, freeze them, or have them learned anew.

    A normal is learned by itself and starts over when K, method or release changes. Freeze one before a change that
    must not be taken as the new normal; relearn one after a change that was meant.
    """
    context.obj = sidecar.rstrip("/")


@command.command("list")
@click.pass_obj
def show(sidecar: str) -> None:
    """Every server's, every model's and the fleet's normal."""
    table = Table("scope", "name", "normal", "learned", "since", "called", box=None, pad_edge=False)
    for entry in _ask(sidecar, "GET", ""):
        table.add_row(*_row(entry))
    Console(markup=False, emoji=False).print(table)


@command.command("freeze")
@click.argument("scope", type=click.Choice(SCOPES))
@click.argument("name", default="")
@click.option("--as", "reference", default="frozen", metavar="NAME", help="What to call it.")
@click.pass_obj
def freeze(sidecar: str, scope: str, name: str, reference: str) -> None:
    """Keep the present normal of SCOPE NAME as it is."""
    entry = _ask(sidecar, "POST", "/freeze", scope=scope, name=name, reference=reference)
    click.echo(f"{_called(entry)}: {_rate(entry)} is the normal, as {reference}, until it is learned anew by hand")


@command.command("relearn")
@click.argument("scope", type=click.Choice(SCOPES))
@click.argument("name", default="")
@click.pass_obj
def relearn(sidecar: str, scope: str, name: str) -> None:
    """Take the traffic from now on as the new normal of SCOPE NAME."""
    entry = _ask(sidecar, "POST", "/relearn", scope=scope, name=name)
    click.echo(f"{_called(entry)}: the normal is learned anew from now on")


def _ask(sidecar: str, method: str, path: str, **body: str) -> Any:
    address = f"{sidecar}/api/v1/references{path}"
    try:
        answer = requests.request(method, address, json=body or None, timeout=ANSWER_SECONDS, allow_redirects=False)
        content = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else None
    except (requests.RequestException, ValueError) as problem:
        raise SpecwatchError(f"{sidecar}: no sidecar answers there ({type(problem).__name__}): see --sidecar") from None
    if answer.status_code in (404, 409, 422) and isinstance(content, dict):
        raise InputError(f"{sidecar}: {content.get('detail')}")
    if answer.status_code != 200 or content is None:
        raise SpecwatchError(f"{sidecar}: answered {answer.status_code}: is this a specwatch sidecar?")
    return content


def _row(entry: Any) -> tuple[str, ...]:
    drift = entry["drift"]
    learned = f"{drift['learned']:.0%}"
    return entry["scope"], entry["name"], _rate(entry), learned, _since(drift), drift["reference_name"] or ""


def _since(drift: Any) -> str:
    if drift["regime_since"] is None:
        return ""
    return datetime.fromtimestamp(drift["regime_since"]).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _called(entry: Any) -> str:
    return f"{entry['scope']} {entry['name']}".strip()


def _rate(entry: Any) -> str:
    rate = entry["drift"]["reference"]
    return "not learned yet" if rate is None else f"{rate:.1%}"
