"""``specwatch demo``: the whole loop on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from specwatch.cli.running import ENDING, cancelled_by
from specwatch.errors import SpecwatchError
from specwatch.lab import stage
from specwatch.lab.models import default_cache
from specwatch.lab.prepare import prepare
from specwatch.lab.screen import Screen, screen
from specwatch.lab.show import SCENES, Show
from specwatch.lab.sink import Sink
from specwatch.lab.stage import Stage
from specwatch.vllm import installed


@click.command("demo")
@click.option("--simulated", is_flag=True, help="Simulated servers instead of vLLM: starts in seconds, needs no torch.")
@click.option("--once", is_flag=True, help="End after the last scene instead of playing on until Ctrl-C.")
def command(simulated: bool, once: bool) -> None:
    """Launch, watch, drift, alert: the whole loop on this machine.

    A server speculates on traffic its draft was made for, then on traffic it was not, and back. Acceptance and the
    estimated speedup fall, drift is raised, the 60 % alert fires, and a local stand-in for Slack and PagerDuty shows
    what it received. Everything listens on 127.0.0.1; nothing is left running.
    """
    folder = _folder()
    console = Console()
    ending = "The demonstration is over; nothing is left running."
    with screen(console) as shown:
        try:
            asyncio.run(cancelled_by(ENDING, _play(shown, folder, simulated, once), partial(_say_that_it_stops, shown)))
        except asyncio.CancelledError:
            ending = "Stopped; nothing is left running."
    console.print(ending, highlight=False)


def _folder() -> Path:
    """Where the demonstration keeps its logs and the sidecar's configuration."""
    folder = default_cache() / "demo"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        words = (problem.strerror or str(problem)).lower()
        raise SpecwatchError(f"{folder}: {words}. Name a folder to write into with SPECWATCH_CACHE.") from None
    return folder


def _say_that_it_stops(shown: Screen) -> None:
    with suppress(OSError):  # the terminal may be what has gone
        shown.say("Stopping what was started. Ctrl-C again hurries it.")


async def _play(shown: Screen, folder: Path, simulated: bool, once: bool) -> None:
    async with Sink() as sink, _stage(shown, folder, sink, simulated) as on:
        shown.pin([f"page {on.page}/ · metrics {on.page}/metrics", f"servers {' '.join(on.servers)}"])
        show = Show(on, sink, shown.watch)
        await show.play()
        while not once:
            await show.play(SCENES[1:])


@asynccontextmanager
async def _stage(shown: Screen, folder: Path, sink: Sink, simulated: bool) -> AsyncIterator[Stage]:
    if simulated:
        shown.say(
            "Three simulated vLLM servers, for a minute and a half. The sidecar's five minutes last fifteen seconds."
        )
        async with stage.simulated(folder, sink, shown.waiting) as on:
            yield on
        return
    vllm = installed.find()
    shown.say(
        f"vLLM {vllm.release} on the CPU with a draft model: two to three minutes, and two to four more the first time "
        "to train two tiny models. The sidecar's five minutes last fifteen seconds."
    )
    models = await prepare(shown.progress)
    async with stage.real(folder, sink, shown.waiting, models) as on:
        yield on
