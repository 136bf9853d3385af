"""``specwatch check``: what speculation does on a running server, within seconds."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from specwatch.cli import check_report
from specwatch.cli.running import run
from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import ScrapeError, http_session, scrape, server_release
from specwatch.collect.targets import Target, parse
from specwatch.errors import InputError
from specwatch.sidecar.service import Clock
from specwatch.sidecar.views import TargetView
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.findings import Level
from specwatch.signals.speedup import ASSUMED, given

EXIT_PROBLEM = 1
EXIT_NO_PAGE = 3
EXIT_INTERRUPTED = 130
"""As shells have it after Ctrl-C: 1 would claim that something is wrong with the server."""

SLOWEST = 2 * PATIENT.seconds
"""Seconds that two scrapes of a slow server may take beyond what was asked for: what was seen counts all the same."""

SCRAPE_EVERY = 0.5
"""Seconds between scrapes: the first figures stand after one of them, and a page costs a server milliseconds."""


def duration(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Seconds from ``10s``, ``2m`` or a plain number."""
    unit = {"s": 1.0, "m": 60.0}.get(text[-1:])
    try:
        seconds = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no duration; write 10s or 2m", ctx, param) from None
    if not 1 <= seconds <= 3600:
        raise click.BadParameter(f"{text!r} is not between 1s and 60m", ctx, param)
    return seconds


@click.command("check", context_settings={"show_default": True})
@click.argument("url")
@click.option("--for", "duration", callback=duration, default="10s", metavar="DURATION", help="How long to watch.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end, nothing else.")
@click.option("--num-speculative-tokens", "k", type=click.IntRange(1, 64), metavar="K", help="K, for the V0 engine.")
@click.option("--draft-cost", type=click.FloatRange(0, 10), metavar="C", help="Draft token ÷ target step, if known.")
def command(url: str, duration: float, as_json: bool, k: int | None, draft_cost: float | None) -> None:
    """Say what speculation does on the vLLM server at URL, from its metrics alone.

    Scrapes for a few seconds and prints acceptance, length, coverage and the estimated speedup over that window, never
    over the server's life, and what is wrong in plain words.

    Exit code: 0 healthy or nothing to judge, 1 something is wrong, 2 usage, 3 no page to read.
    """
    target = _target(url)
    settings = WatchSettings(
        k=k,
        cost=ASSUMED if draft_cost is None else given(draft_cost),
        windows=(duration + SLOWEST,),
        headline=duration + SLOWEST,
    )
    console = Console(highlight=False)
    try:
        view = run(_follow(target, settings, duration, None if as_json else console))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(check_report.as_json(view), indent=2))
    elif not console.is_terminal:
        console.print(check_report.report(view))
    sys.exit(_exit_code(view))


def _target(url: str) -> Target:
    try:
        return parse(url)
    except InputError as problem:
        raise click.BadParameter(str(problem), param_hint="URL") from None


async def _follow(target: Target, settings: WatchSettings, duration: float, screen: Console | None) -> TargetView:
    """The view after ``duration`` seconds, or at the first failure; on a terminal, shown as it grows."""
    if screen is None or not screen.is_terminal:
        return [view async for view in _views(target, settings, duration)][-1]
    with Live(Text(f"asking {target.url} …", style="dim"), console=screen, auto_refresh=False) as live:
        live.refresh()
        async for view in _views(target, settings, duration):
            live.update(check_report.report(view), refresh=True)
    return view


async def _views(target: Target, settings: WatchSettings, duration: float) -> AsyncIterator[TargetView]:
    """One view after every scrape; of a server however slow at least two, for a rate takes two."""
    watch, clock = TargetWatch(target, settings), Clock()
    end = clock.now() + duration
    scrapes = 0
    async with http_session() as session:
        while True:
            try:
                watch.observe(clock.now(), await scrape(session, target, PATIENT))
            except ScrapeError as problem:
                watch.failed(str(problem))
            scrapes += 1
            if watch.release is None and watch.up:
                watch.release = await server_release(session, target)
            yield watch.view(clock.now())
            left = end - clock.now()
            if not watch.up or (left <= 0 and scrapes >= 2):
                return
            await asyncio.sleep(max(0.0, min(SCRAPE_EVERY, left)))


def _exit_code(view: TargetView) -> int:
    if not view.up:
        return EXIT_NO_PAGE
    return EXIT_PROBLEM if any(f.level is Level.PROBLEM for f in view.findings) else 0
