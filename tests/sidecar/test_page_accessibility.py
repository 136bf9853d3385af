"""The page, judged by axe-core: every view and state, by day, by night, and on a phone."""

from __future__ import annotations

from typing import Literal

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

from specwatch.lab.scenario import FOREIGN, HOME, Failure, Phase
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service
from tests.support.page import HOPELESS, PATIENCE, WHOLE_STEP
from tests.support.services import chromium
from tools.browser import browsing
from tools.rehearsal import rehearsing, serving

VIEWS = {
    "#/": "tbody[data-server] .value",
    "#/?group=model&sort=acceptance&find=e": ".group",
    "#/server/drifts": ".chart .line",
    "#/server/drifts?range=7d": ".over-time",
    "#/server/away": ".findings",
    "#/server/unknown": ".back",
    "#/alerts?alert=SpeculationDrifted&target=drifts": ".alerts li",
    "#/targets": ".targets .word",
}
"""Addresses, and what is there once a view has its figures."""


async def violations(page: Page) -> list[str]:
    """What axe finds, with the first element that it finds it on."""
    found = await Axe().run(page)
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found.response["violations"]]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
async def test_axe_finds_no_violation_in_any_view(width: int, scheme: Literal["light", "dark"]):
    servers = [
        SimulatedServer("drifts", running=4, script=[Phase(900, "home", HOME), Phase(traffic=FOREIGN)]),
        SimulatedServer("costs", running=4, traffic=HOPELESS),
        SimulatedServer("other", running=4, model_name="Qwen/Qwen3-32B"),
        SimulatedServer("away"),
    ]
    servers[-1].failure = Failure.SERVER_ERROR
    async with rehearsing(servers) as rehearsal, browsing(chromium()) as browser:
        await rehearsal.play(1500, WHOLE_STEP)
        page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.set_default_timeout(PATIENCE)
        for address, shown in VIEWS.items():
            await page.goto(f"{rehearsal.url}/{address}")
            await page.locator(shown).first.wait_for(state="attached")
            await page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
            assert await violations(page) == [], address


@pytest.mark.browser
async def test_axe_finds_no_violation_without_servers():
    async with browsing(chromium()) as browser, serving(create_app(Service([]), AlertBook())) as url:
        page = await browser.new_page()
        await page.goto(url)
        await page.get_by_text("No server is watched").wait_for()
        assert await violations(page) == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_no_violation_in_figures_that_are_old(scheme: Literal["light", "dark"]):
    async with browsing(chromium()) as browser:
        page = await browser.new_page(color_scheme=scheme)
        async with rehearsing([SimulatedServer("gpu-0", running=4), SimulatedServer("gpu-1", running=0)]) as rehearsal:
            await rehearsal.play(300, WHOLE_STEP)
            await page.goto(rehearsal.url)
            await page.locator("tbody[data-server] .value").first.wait_for()
        await page.get_by_text("Disconnected.").wait_for()
        assert await violations(page) == []
