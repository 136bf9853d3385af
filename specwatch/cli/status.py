"""``specwatch status``: how every server stands, once: for people, for pipes, for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from specwatch.cli import check_report
from specwatch.cli.check import EXIT_INTERRUPTED, SLOWEST, duration
from specwatch.cli.running import run
from specwatch.cli.sidecar_client import Alert
from specwatch.cli.status_source import Asked, FromScrapes, Look, source_options
from specwatch.cli.status_table import Server, alert_words, remark, servers, table
from specwatch.cli.status_text import COLOURS, cut, name, safe
from specwatch.errors import InputError
from specwatch.sidecar.headline import headline
from specwatch.sidecar.verdict import Tone
from specwatch.sidecar.watch import WatchSettings

EXITS = {Tone.GOOD: 0, Tone.QUIET: 0, Tone.BAD: 1, Tone.WARN: 4}
"""By the worst tone of a server; 2 is usage and 3 no answer, as for ``specwatch check``."""

MOST_REMARKS = 10
"""Servers below the table of which is said what is wrong; ``--json`` has all."""

NAME_CELLS = 24
"""Cells of a name beside what is wrong."""

DRIFT = ("score", "learned", "reference", "change", "since")
ALERT = ("name", "state", "severity", "since")
"""What JSON tells of each."""

LONGEST_REMARK = 400
"""Cells of what is wrong with a server."""


@click.command("status", context_settings={"show_default": True})
@source_options
@click.option(
    "--for", "seconds", callback=duration, default="10s", metavar="DURATION", help="With --target: how long to scrape."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, nothing else.")
def command(asked: Asked, seconds: float, as_json: bool) -> None:
    """Say how every server stands, as the sidecar at URL sees it: one line a server, the worst first.

    URL is http://127.0.0.1:9108 unless given. With --target, servers are scraped from here instead, for a few seconds,
    and no sidecar is needed. On a terminal the columns that fit are shown, into a pipe all of them.

    Exit code, by the worst server: 0 well or nothing to judge, 1 it costs more than it gives, cannot be read, or an
    alert pages; 4 worth a look: drifted, not drafting, no news, an alert or a problem; 2 usage; 3 no sidecar to read.
    """
    console = Console(highlight=False, soft_wrap=True)
    _refuse_idle_for(asked)
    try:
        look = run(_look(asked, seconds, None if as_json else console))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    rows = servers(look)
    if as_json:
        click.echo(json.dumps(_as_json(rows, look), indent=2))
    elif console.is_terminal:
        _show(console, rows, look)
    else:
        _pipe(console, rows)
    sys.exit(exit_code(rows))


def _refuse_idle_for(asked: Asked) -> None:
    """InputError for a length of time that nothing would follow."""
    is_given = click.get_current_context().get_parameter_source("seconds") is not ParameterSource.DEFAULT
    if is_given and not asked.targets:
        raise InputError(
            "--for: that is how long the servers of --target are scraped; a sidecar is asked once, and the column OVER "
            "says what its figures cover"
        )


def exit_code(rows: Sequence[Server]) -> int:
    """What the worst server says."""
    tones = {row.tone for row in rows}
    return EXITS[next((tone for tone in Tone if tone in tones), Tone.QUIET)]


async def _look(asked: Asked, seconds: float, screen: Console | None) -> Look:
    window = seconds + SLOWEST
    async with asked.source(WatchSettings(windows=(window,), headline=window)) as source:
        if isinstance(source, FromScrapes):
            with _waiting(f"scraping for {seconds:g} s …", screen):
                await source.wait(seconds)
        return await source.look()


def _waiting(words: str, screen: Console | None) -> AbstractContextManager[object]:
    """The words, on a terminal and while this is open."""
    if screen is None or not screen.is_terminal:
        return nullcontext()
    return Live(Text(words, style="dim"), console=screen, auto_refresh=False, transient=True)


def _pipe(console: Console, rows: Sequence[Server]) -> None:
    """The heads and a line a server, whatever their length: what stands in a line needs no other."""
    shown = table(rows, None)
    for line in (shown.head, *shown.lines):
        console.print(line, crop=False)


def _show(console: Console, rows: Sequence[Server], look: Look) -> None:
    sentence = headline([row.judged for row in rows], look.at)
    console.print(Text(safe(sentence), style="bold"), soft_wrap=False)
    if look.alerts is None:
        console.print(Text(look.without_alerts, style="dim"), soft_wrap=False)
    if rows:
        shown = table(rows, console.width)
        console.print()
        for line in (shown.head, *shown.lines):
            console.print(line, crop=False)
        _show_remarks(console, [row for row in rows if row.tone in (Tone.BAD, Tone.WARN)], look.at)


def _show_remarks(console: Console, rows: Sequence[Server], now: float) -> None:
    """What is wrong, in sentences."""
    for row in rows[:MOST_REMARKS]:
        finding = remark(row.view)
        texts = [Text(cut(finding.text, LONGEST_REMARK))] if finding else []
        texts += [Text(cut(finding.remedy, LONGEST_REMARK), style="dim")] if finding and finding.remedy else []
        texts += [Text(cut(alert_words(alert, now), LONGEST_REMARK)) for alert in row.firing]
        console.print()
        console.print(Text(name(row.view.target.name, NAME_CELLS), style=f"bold {COLOURS[row.tone]}"))
        for text in texts:
            console.print(Padding(text, (0, 0, 0, 2), expand=False), soft_wrap=False)
    if len(rows) > MOST_REMARKS:
        console.print(Text(f"\nand {len(rows) - MOST_REMARKS} more: --json tells all", style="dim"))


def _as_json(rows: Sequence[Server], look: Look) -> dict[str, Any]:
    return {
        "at": look.at,
        "headline": headline([row.judged for row in rows], look.at),
        "servers": [_server_as_json(row) for row in rows],
    }


def _server_as_json(row: Server) -> dict[str, Any]:
    """What ``specwatch check --json`` tells of a server, how it stands, its drift and its alerts."""
    drift = row.view.drift
    return {
        "name": row.view.target.name,
        "state": row.judged.verdict.value,
        "tone": row.tone.value,
        "window": row.view.headline_window,
        **check_report.as_json(row.view),
        "drift": {name: getattr(drift, name) for name in DRIFT},
        "alerts": None if row.alerts is None else [_alert_as_json(alert) for alert in row.alerts],
    }


def _alert_as_json(alert: Alert) -> dict[str, Any]:
    return {name: getattr(alert, name) for name in ALERT} | {"muted": not alert.is_loud}
