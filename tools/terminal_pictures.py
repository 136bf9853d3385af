"""Take the pictures of ``specwatch top`` that the docs show.

    python -m tools.terminal_pictures [--output docs/images] [--chromium PATH]

Seven simulated servers live through three quarters of an hour, which is played in seconds: one of them meets traffic
that its draft was not made for. What a terminal of 80 columns would show is drawn by a headless Chromium.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from specwatch.cli.sidecar_client import sidecar
from specwatch.cli.status_source import FromSidecar, Look
from specwatch.cli.status_table import servers
from specwatch.cli.top_screen import Heard, Screen
from specwatch.cli.top_view import View
from specwatch.lab.scenario import HOME, Domain, Phase
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from tools import pictures
from tools.browser import browsing
from tools.rehearsal import rehearsing

WIDTH, HEIGHT = 80, 24
"""The terminal that everybody has."""

STEP = 15.0
"""Seconds between scrapes: a block of the drift detector."""

HEALTHY_SECONDS = 27 * 60.0
DRIFTED_SECONDS = 18 * 60.0
"""Until the slowest alert fires."""

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""

UNKNOWN = Domain("unknown language", acceptance=0.08, prompt_tokens=300)
"""Traffic that the draft knows nothing of, in longer prompts."""

DRIFTING = "gpu-3"

PICTURES = {"top": View(), "top-server": View(chosen=DRIFTING, is_open=True)}


def fleet() -> list[SimulatedServer]:
    """Seven replicas, one of which drifts for good."""
    drift = [Phase(HEALTHY_SECONDS, "healthy", HOME), Phase(name="drifted", traffic=UNKNOWN)]
    names = [f"gpu-{number}" for number in range(1, 8)]
    return [
        SimulatedServer(name, running=8, cost=SLOW, seed=seed, script=drift if name == DRIFTING else ())
        for seed, name in enumerate(names)
    ]


def svg(look: Look, view: View) -> str:
    """What the terminal shows, as a drawing that loads nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in Screen(Heard(look, servers(look)), "127.0.0.1:9108", view, WIDTH, HEIGHT).lines():
        console.print(line, highlight=False, soft_wrap=True)
    drawn = console.export_svg(title="specwatch top")
    return re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")


async def take_all(chromium: Path, output: Path) -> None:
    """Play the story and take every picture."""
    past = HEALTHY_SECONDS + DRIFTED_SECONDS
    async with rehearsing(fleet(), past=past) as rehearsal, browsing(chromium) as browser:
        await rehearsal.play(past, STEP)
        async with sidecar(rehearsal.url) as client:
            look = await FromSidecar(client).look()
        for name, view in PICTURES.items():
            page = await browser.new_page(device_scale_factor=2)
            await page.set_content(f"<style>svg {{ display: block; width: 800px }}</style>{svg(look, view)}")
            path = output / f"{name}.png"
            await page.locator("svg").screenshot(path=path, omit_background=True)
            print(f"{path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)


if __name__ == "__main__":
    sys.exit(pictures.run(take_all, "Take the pictures of specwatch top for the docs."))
