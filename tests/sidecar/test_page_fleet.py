"""The table of servers in a real browser: found, sorted, grouped, and live."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Page, expect

from benchmarks.page import Fed
from specwatch.lab.scenario import FOREIGN
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.routes import events
from tests.support.page import HOPELESS, WHOLE_STEP, Seen, figure, page_of, row
from tools.rehearsal import Rehearsal, rehearsing, serving


@asynccontextmanager
async def fleet_page(query: str = "", width: int = 1280) -> AsyncIterator[tuple[Page, Seen, Rehearsal]]:
    """Two models on three servers, one of which costs."""
    servers = [
        SimulatedServer("gpu-2", running=4),
        SimulatedServer("gpu-10", running=8, model_name="Qwen/Qwen3-32B"),
        SimulatedServer("poor", running=2, traffic=HOPELESS),
    ]
    async with rehearsing(servers) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(f"{rehearsal.url}/#/{query}", width) as (page, seen):
            await expect(row(page, "gpu-2")).to_be_visible()
            yield page, seen, rehearsal


async def names(page: Page) -> list[str]:
    return await page.locator("th.name a").all_text_contents()


@pytest.mark.browser
async def test_a_head_sorts_up_then_down_and_back_returns_to_the_order_before():
    async with fleet_page() as (page, seen, _):
        assert (await names(page))[0] == "poor"
        head = page.get_by_role("columnheader", name="Server")
        await head.get_by_role("link").click()
        await expect(head).to_have_attribute("aria-sort", "ascending")
        assert await names(page) == ["gpu-2", "gpu-10", "poor"]
        await head.get_by_role("link").click()
        await expect(head).to_have_attribute("aria-sort", "descending")
        assert await names(page) == ["poor", "gpu-10", "gpu-2"]
        assert page.url.endswith("#/?sort=name&order=down")
        await page.go_back()
        await expect(head).to_have_attribute("aria-sort", "ascending")
        batch = page.get_by_role("columnheader", name="Batch size")
        await batch.get_by_role("link").click()
        await expect(batch).to_have_attribute("aria-sort", "descending")
        assert await names(page) == ["gpu-10", "gpu-2", "poor"]
        assert seen.complaints == []


@pytest.mark.browser
async def test_what_is_typed_filters_at_once_and_a_link_reproduces_the_view():
    async with fleet_page() as (page, _, _):
        field = page.get_by_role("searchbox")
        await field.fill("qwen")
        await expect(page.locator("th.name a")).to_have_text(["gpu-10"])
        assert page.url.endswith("#/?find=qwen")
        await expect(field).to_be_focused()
        await field.fill("nothing like it")
        await page.get_by_role("link", name="Show all servers").click()
        await expect(page.locator("th.name a")).to_have_count(3)
        await expect(field).to_have_value("")
    async with fleet_page("?find=GPU&sort=name&order=down&group=model") as (page, _, _):
        assert await names(page) == ["gpu-10", "gpu-2"]
        await expect(page.get_by_role("searchbox")).to_have_value("GPU")
        await expect(page.get_by_role("checkbox", name="Group by model")).to_be_checked()
        await expect(page.locator("#servers-title")).to_contain_text("2 of 3, by server, descending")


@pytest.mark.browser
async def test_states_are_counted_chosen_and_taken_back():
    async with fleet_page() as (page, _, _):
        await page.get_by_role("link", name="Costs 1").click()
        await expect(page.locator("th.name a")).to_have_text(["poor"])
        await expect(page.get_by_role("link", name="Costs 1")).to_have_attribute("aria-current", "true")
        await page.go_back()
        await expect(page.locator("th.name a")).to_have_count(3)


@pytest.mark.browser
async def test_servers_are_grouped_under_their_models():
    async with fleet_page() as (page, _, _):
        await page.get_by_role("checkbox", name="Group by model").check()
        heads = page.locator(".group th")
        await expect(heads).to_have_count(2)
        await expect(heads.first).to_contain_text("2 servers: 1 costs, 1 pays")
        assert await names(page) == ["poor", "gpu-2", "gpu-10"]


@pytest.mark.browser
async def test_on_a_phone_the_order_is_chosen_from_a_list():
    async with fleet_page(width=360) as (page, _, _):
        await page.get_by_label("Sort by").select_option(label="Server")
        assert await names(page) == ["gpu-2", "gpu-10", "poor"]
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.browser
async def test_from_a_server_one_returns_to_what_was_found_and_sorted():
    async with fleet_page("?find=gpu&sort=name&order=down") as (page, _, _):
        await row(page, "gpu-2").get_by_role("link").click()
        await expect(page.get_by_role("heading", name="gpu-2")).to_be_focused()
        await page.get_by_role("link", name="All servers").click()
        await expect(page.locator("th.name a")).to_have_text(["gpu-10", "gpu-2"])
        await expect(row(page, "gpu-2").get_by_role("link")).to_be_focused()


@pytest.mark.browser
async def test_a_thousand_servers_are_all_there_and_any_of_them_is_returned_to():
    fed = Fed(1000)
    fed.feed(3)
    async with serving(create_app(fed.service, AlertBook())) as url, page_of(url) as (page, seen):
        await expect(page.locator("tbody[data-server]")).to_have_count(1000)
        await page.get_by_role("searchbox").fill("gpu-99")
        await expect(page.locator("th.name a")).to_have_count(11)
        await page.get_by_role("searchbox").fill("")
        last = page.locator("th.name a").last
        name = await last.text_content() or ""
        await last.click()
        await expect(page.get_by_role("heading", name=name, exact=True)).to_be_focused()
        await page.go_back()
        await expect(row(page, name).get_by_role("link")).to_be_focused()
        await expect(row(page, name)).to_be_in_viewport()
        assert seen.complaints == []


def asked_for_servers(seen: Seen) -> int:
    return sum(url.endswith("/api/v1/servers") for url in seen.requests)


@pytest.mark.browser
async def test_new_figures_arrive_by_events_and_nothing_is_asked_in_between():
    async with fleet_page() as (page, seen, rehearsal):
        cell = figure(page, "gpu-2", "Acceptance")
        before: Any = await cell.text_content()
        while asked_for_servers(seen) < 2:  # by the page, and by the first event
            await page.wait_for_timeout(100)
        await page.wait_for_timeout(3000)  # longer than between two questions without events
        assert asked_for_servers(seen) == 2
        rehearsal.fleet.servers[0].traffic = FOREIGN
        await rehearsal.play(300, WHOLE_STEP)
        await expect(cell).not_to_have_text(before)


@pytest.mark.browser
async def test_where_no_more_may_listen_the_page_asks_by_itself(monkeypatch):
    monkeypatch.setattr(events, "MOST_LISTENERS", 0)
    async with fleet_page() as (page, _, rehearsal):
        cell = figure(page, "gpu-2", "Acceptance")
        before: Any = await cell.text_content()
        await expect(page.locator("#connection")).to_contain_text("Live")
        rehearsal.fleet.servers[0].traffic = FOREIGN
        await rehearsal.play(300, WHOLE_STEP)
        await expect(cell).not_to_have_text(before)
