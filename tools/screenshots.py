"""Take the pictures of the page that the README and the docs show.

    python -m tools.screenshots [--output docs/images] [--chromium PATH]

Two small fleets live through three quarters of an hour, which is played in two minutes. In the first, one of three
servers meets traffic that its draft was not made for; the second has an incident of every kind. A headless Chromium
takes pictures of every view, and of what the page says while the sidecar says nothing. Nothing leaves this machine.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, ViewportSize

from specwatch.alerting.receivers import Receiver, receivers
from specwatch.alerting.silences import Silence
from specwatch.config import SidecarConfig
from specwatch.lab.scenario import FOREIGN, HOME, Domain, Failure, Phase
from specwatch.lab.simulator import SimulatedServer
from specwatch.lab.sink import Sink
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from tools import pictures
from tools.browser import browsing
from tools.rehearsal import Rehearsal, rehearsing, serving

LARGEST = 400_000
"""Bytes of a picture: the README must open quickly."""

STEP = 5.0
"""Seconds between scrapes: the sidecar's default."""

HEALTHY_SECONDS = 27 * 60.0
"""Ten minutes of traffic are learned as normal; the rest shows that it is."""

DRIFTED_SECONDS = 18 * 60.0
"""The slowest alert fires 10 minutes after five-minute windows have turned: about a quarter of an hour."""

UNKNOWN = Domain("unknown language", acceptance=0.08, prompt_tokens=300)
"""Traffic that the draft knows nothing of, in longer prompts. A byte-level draft accepted 1.4 % of its tokens in a
language that it had not been trained on; this gives about 1.7 % at K = 5, so that even a cheap draft costs more than it
gives."""

ROUTING_KEY = "0" * 32
"""What the sink takes for a PagerDuty routing key."""

DRIFTING = "gpu-3"

LONG_STEP = 15.0
"""Seconds between scrapes where nothing is drawn so finely: a block of the drift detector."""

SHOWN = ".sparkline .line, .chart .line, .charts, .over-time, .targets tbody .word, .silences td"
"""What is there once a view has its figures."""

SETTLE = 500.0
"""Milliseconds after that, for rows further down."""

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


def views(name: str, address: str, phone: Literal["light", "dark"] = "light") -> tuple[Picture, ...]:
    """One view by day, by night, and on a phone."""
    return (
        Picture(f"{name}-light", address, DESKTOP, "light"),
        Picture(f"{name}-dark", address, DESKTOP, "dark"),
        Picture(f"{name}-phone", address, PHONE, phone, whole=False),
    )


ONE_DRIFTS = (
    *views("overview", "#/"),
    *views("server", f"#/server/{DRIFTING}", phone="dark"),
    *views("alerts", f"#/alerts?alert=SpeculativeAcceptanceRateLow&target={DRIFTING}"),
    *views("targets", "#/targets", phone="dark"),
)
"""Pictures of the first fleet."""

INCIDENTS = (
    *views("incidents", "#/?group=model", phone="dark"),
    Picture("incidents-found", "#/?find=eu&sort=acceptance", DESKTOP, "light"),
    Picture("server-costs", "#/server/eu-costs", DESKTOP, "light"),
    Picture("server-unreachable", "#/server/eu-gone", DESKTOP, "light"),
)
"""Pictures of the second."""


def fleet() -> list[SimulatedServer]:
    """Three replicas, one of which drifts for good."""
    script = [Phase(HEALTHY_SECONDS, "healthy", HOME), Phase(name="drifted", traffic=UNKNOWN)]
    return [
        SimulatedServer("gpu-1", running=11),
        SimulatedServer("gpu-2", running=12),
        SimulatedServer(DRIFTING, running=12, script=script),
    ]


def incidents() -> list[SimulatedServer]:
    """Three models, and everything that goes wrong."""
    drifts = [Phase(HEALTHY_SECONDS, "healthy", HOME), Phase(name="drifted", traffic=FOREIGN)]
    return [
        SimulatedServer("us-1", model_name="Qwen/Qwen3-32B", running=6),
        SimulatedServer("us-2", model_name="Qwen/Qwen3-32B", running=5),
        SimulatedServer("us-idle", model_name="Qwen/Qwen3-32B", running=0),
        SimulatedServer("eu-drifts", running=6, script=drifts),
        SimulatedServer("eu-well", running=6),
        SimulatedServer("eu-costs", running=4, traffic=UNKNOWN),
        SimulatedServer("eu-off", model_name="mistralai/Mistral-Small-24B", running=3, k=None),
        SimulatedServer("eu-gone", running=4),
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
    await page.locator(SHOWN).first.wait_for(state="attached")
    await page.wait_for_timeout(SETTLE)
    path = folder / f"{picture.name}.png"
    await page.screenshot(path=path, full_page=picture.whole)
    await page.close()
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, more than {LARGEST}")
    return path


async def take_all(chromium: Path, output: Path) -> None:
    """Play both stories and take every picture."""
    past = HEALTHY_SECONDS + DRIFTED_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        async with Sink() as sink, browsing(chromium) as browser:
            receivers = receivers_of(sink, Path(folder))
            async with rehearsing(fleet(), past=past, receivers=receivers) as rehearsal:
                await _play(rehearsal, past, STEP)
                await _silence_one(rehearsal)
                await _take_each(browser, ONE_DRIFTS, rehearsal.url, output)
            async with rehearsing(incidents(), past=past) as rehearsal:
                await _play(rehearsal, past - LONG_STEP, LONG_STEP)
                rehearsal.fleet.servers[-1].failure = Failure.DOWN
                await _play(rehearsal, LONG_STEP, LONG_STEP)
                await _take_each(browser, INCIDENTS, rehearsal.url, output)
            await _take_states(browser, output)


async def _play(rehearsal: Rehearsal, seconds: float, step: float) -> None:
    print(f"Playing {seconds / 60:.0f} minutes of {len(rehearsal.fleet.servers)} servers", flush=True)
    await rehearsal.play(seconds, step)


async def _silence_one(rehearsal: Rehearsal) -> None:
    """Somebody is at it already."""
    until, why = rehearsal.clock.now() + 4 * 3600, "K is lowered with the next release"
    await rehearsal.alerts.silence(
        Silence("1", "SpeculationLastPositionsWasted", DRIFTING, "*", until, by="Ada", comment=why)
    )


async def _take_each(browser: Browser, pictures: Sequence[Picture], url: str, output: Path) -> None:
    for picture in pictures:
        path = await take(browser, picture, url, output)
        print(f"{path} ({path.stat().st_size / 1000:.0f} kB)", flush=True)


async def _take_states(browser: Browser, output: Path) -> None:
    """What the page says without servers, before there is an answer, with old figures, and without a sidecar."""
    page = await browser.new_page(viewport=DESKTOP)
    async with serving(create_app(Service(), AlertBook())) as url:
        await page.goto(url)
        await page.get_by_text("No server is watched").wait_for()
        await page.screenshot(path=output / "state-empty.png")
    async with rehearsing(fleet()) as rehearsal:
        await rehearsal.play(600, LONG_STEP)
        await page.route("**/api/**", lambda _: None)
        await page.goto(rehearsal.url)
        await page.get_by_text("Asking the sidecar").wait_for()
        await page.screenshot(path=output / "state-loading.png")
        await page.unroute("**/api/**")
        await _take_unkept(page, rehearsal.url, output)
        rehearsal.service.settings = replace(rehearsal.service.settings, interval=1.0)
        await page.reload()
        await page.get_by_text("Stale.").wait_for()
        await page.screenshot(path=output / "state-stale.png")
    await page.get_by_text("Disconnected.").wait_for()
    await page.screenshot(path=output / "state-disconnected.png")
    await page.close()


async def _take_unkept(page: Page, url: str, output: Path) -> None:
    """What it says while the disk is full, which is not to be had for a picture."""
    told = {
        "path": "/var/lib/specwatch/state.db",
        "up": False,
        "problem": "database or disk is full",
        "set_aside": None,
    }
    await page.route("**/api/v1/store", lambda route: route.fulfill(json=told))
    await page.goto(url)
    await page.get_by_text("Not kept.").wait_for()
    await page.screenshot(path=output / "state-unkept.png")
    await page.unroute("**/api/v1/store")


if __name__ == "__main__":
    sys.exit(pictures.run(take_all, "Take the pictures of the page for the README and the docs."))
