"""``specwatch push-dashboards``: the dashboards into a running Grafana, through its HTTP API."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click

from specwatch.config import is_loopback
from specwatch.errors import SpecwatchError
from specwatch.push import dashboards as push
from specwatch.push.dashboards import Item, Plan
from specwatch.push.grafana import Grafana
from specwatch.secret_files import read_secret

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_DIR = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(name="push-dashboards")
@click.argument("source", metavar="[DIR]", type=_DIR, required=False)
@click.option("--url", metavar="URL", required=True, help="Grafana's address, such as https://grafana.example.com.")
@click.option("--token-file", type=_FILE, required=True, help="File with the token of a service account, an Editor.")
@click.option("--folder", metavar="TITLE", default="specwatch", show_default=True, help="Folder; made where missing.")
@click.option("--ca-file", type=_FILE, help="Certificates (PEM) to trust instead of the system's.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would change.")
@click.option("--overwrite", is_flag=True, help="Also replace dashboards that somebody edited or moved in Grafana.")
def command(
    source: Path | None, url: str, token_file: Path, folder: str, ca_file: Path | None, dry_run: bool, overwrite: bool
) -> None:
    """Bring dashboards into a running Grafana.

    DIR is what gen-dashboards wrote; without it, they are what gen-dashboards writes without options. What is there
    already is left alone; what somebody edited in Grafana is not overwritten unless asked to.
    """
    if not folder.strip():
        raise click.UsageError("--folder needs a title")
    files = push.files_in(source) if source else _generated()
    wanted = push.read_dashboards(files)
    token = read_secret(token_file, "--token-file")
    with Grafana(url, token, ca_file) as grafana:
        if urlsplit(grafana.url).scheme == "http" and not is_loopback(urlsplit(grafana.url).hostname or ""):
            click.echo(f"warning: the token travels to {grafana.url} unencrypted", err=True)
        plan = push.plan(grafana, folder, wanted)
        if dry_run:
            _show(plan, overwrite)
            return
        for item in plan.items:
            if item.state is push.State.UNCHANGED:
                click.echo(f"{item.uid}: unchanged")
        push.carry_out(
            grafana, plan, overwrite, lambda item: click.echo(f"{item.uid}: pushed, {grafana.url}/d/{item.uid}")
        )


def _generated() -> list[tuple[str, str]]:
    from specwatch.generate.dashboards import dashboard_files  # grafanalib is slow to load, and a DIR needs none of it

    return [(name, text) for name, text in dashboard_files().items() if name.endswith(".json")]


def _show(plan: Plan, overwrite: bool) -> None:
    """What would be done; SpecwatchError where a push would be refused."""
    if not plan.folder_exists and plan.pushes(overwrite):
        click.echo(f"folder {plan.folder.title}: would be made")
    for item in plan.items:
        click.echo(_line(item, item in plan.pushes(overwrite)))
        if item.state is not push.State.UNCHANGED and item.difference:
            click.echo(item.difference)
    refusals = plan.refusals(overwrite)
    if refusals:
        raise SpecwatchError("a push would be refused:\n  " + "\n  ".join(refusals))


def _line(item: Item, is_pushed: bool) -> str:
    return f"{item.uid}: {item.state.value}{', would be pushed' if is_pushed else ''}"
