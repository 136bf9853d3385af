"""Take the pictures of the page that the README and the docs show.

    python -m tools.screenshots [--output docs/images] [--chromium PATH]

Three simulated servers live through three quarters of an hour, which is played in about a minute: one of them meets
traffic that its draft was not made for. Then a headless Chromium takes the pictures. Nothing leaves this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, ViewportSize

from specwatch.alerting.receivers import Receiver, receivers
from specwatch.config import SidecarConfig
from specwatch.lab.scenario import HOME, Domain, Phase
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.sink import Sink
from tools import install_test_programs as programs
from tools.browser import browsing
from tools.rehearsal import rehearsing

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

LARGEST = 400_000
"""Bytes of a picture: the README must open quickly."""

STEP = 5.0
"""Seconds between scrapes: the sidecar's default."""

HEALTHY_SECONDS = 27 * 60.0
"""Ten minutes of traffic are learned as normal; the rest shows that it is."""

DRIFTED_SECONDS = 18 * 60.0
"""The slowest alert fires 10 minutes after five-minute windows have turned: about a quarter of an hour."""

UNKNOWN = Domain("unknown language", acceptance=0.08)
"""Traffic that the draft knows nothing of. A byte-level draft accepted 1.4 % of its tokens in a language that it had
not been trained on; this gives about 1.7 % at K = 5, so that even a cheap draft costs more than it gives."""

ROUTING_KEY = "0" * 32
"""What the sink takes for a PagerDuty routing key."""

DRIFTING = "gpu-3"

DESKTOP = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)


@dataclass(frozen=True)
class Picture:
    """One picture: what is shown, and to whom."""

    name: str
    address: str
    viewport: ViewportSize
    scheme: Literal["light", "dark"]
    whole: bool = True
    """Whether the picture goes on below the first screen."""


OVERVIEW, SERVER = "#/", f"#/server/{DRIFTING}"

PICTURES = (
    Picture("overview-light", OVERVIEW, DESKTOP, "light"),
    Picture("overview-dark", OVERVIEW, DESKTOP, "dark"),
    Picture("overview-phone", OVERVIEW, PHONE, "light", whole=False),
    Picture("server-light", SERVER, DESKTOP, "light"),
    Picture("server-dark", SERVER, DESKTOP, "dark"),
    Picture("server-phone", SERVER, PHONE, "dark", whole=False),
)


def fleet() -> list[SimulatedServer]:
    """Three replicas, one of which drifts for good."""
    script = [Phase(HEALTHY_SECONDS, "healthy", HOME), Phase(name="drifted", traffic=UNKNOWN)]
    return [
        SimulatedServer("gpu-1", running=11),
        SimulatedServer("gpu-2", running=12),
        SimulatedServer(DRIFTING, running=12, script=script),
    ]


def receivers_of(sink: Sink, folder: Path) -> tuple[Receiver, ...]:
    """Slack and PagerDuty, both of them the sink."""
    secrets = {"slack": sink.slack_url, "pagerduty": ROUTING_KEY}
    for name, secret in secrets.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret)
    return receivers(
        SidecarConfig(
            slack_webhook_file=folder / "slack",
            pagerduty_routing_key_file=folder / "pagerduty",
            pagerduty_url=sink.pagerduty_url,
        )
    )


async def take(browser: Browser, picture: Picture, url: str, folder: Path) -> Path:
    """Take one picture; ValueError when its file is too large."""
    page = await browser.new_page(
        viewport=picture.viewport,
        color_scheme=picture.scheme,
        device_scale_factor=1 if picture.viewport is DESKTOP else 2,
    )
    await page.goto(f"{url}/{picture.address}")
    drawn = ".sparkline .line, .chart .line"
    await page.locator(drawn).first.wait_for(state="attached")
    path = folder / f"{picture.name}.png"
    await page.screenshot(path=path, full_page=picture.whole)
    await page.close()
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}")
    return path


async def take_all(chromium: Path, output: Path) -> None:
    """Play the story and take every picture."""
    past = HEALTHY_SECONDS + DRIFTED_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        async with Sink() as sink, browsing(chromium) as browser:
            receivers = receivers_of(sink, Path(folder))
            async with rehearsing(fleet(), past=past, receivers=receivers) as rehearsal:
                print(f"Playing {past / 60:.0f} minutes of {len(rehearsal.fleet.servers)} servers", flush=True)
                await rehearsal.play(past, STEP)
                rehearsal.clock.release()
                for picture in PICTURES:
                    path = await take(browser, picture, rehearsal.url, output)
                    print(f"{path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 when every picture is taken, 1 when Chromium is missing."""
    parser = argparse.ArgumentParser(description="Take the pictures of the page for the README and the docs.")
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder for the PNG files")
    parser.add_argument("--chromium", type=Path, help="the browser; without it, the one on this machine")
    options = parser.parse_args(arguments)
    chromium = options.chromium or programs.find(programs.CHROMIUM)
    if chromium is None:
        print(programs.remedy([programs.CHROMIUM]), file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    asyncio.run(take_all(chromium, options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
