"""A server, alerts and targets in a real browser: over time, silenced, and as /metrics says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, expect
from prometheus_client.parser import text_string_to_metric_families

from specwatch.alerting.receivers import webhook_receiver
from specwatch.lab.scenario import FOREIGN, HOME, Failure, Phase
from specwatch.lab.simulator import SimulatedServer
from tests.support.http import serving as serving_pages
from tests.support.page import HOPELESS, WHOLE_STEP, page_of
from tools.rehearsal import rehearsing


def chart(page: Page, figure: str) -> Any:
    return page.locator(f"figure[data-figure={figure}]")


@pytest.mark.browser
async def test_a_server_is_drawn_over_time_with_its_limits_and_the_moment_of_change():
    server = SimulatedServer("gpu-0", running=4, script=[Phase(1500, "home", HOME), Phase(traffic=FOREIGN)])
    async with rehearsing([server]) as rehearsal:
        await rehearsal.play(2100, WHOLE_STEP)
        async with page_of(f"{rehearsal.url}/#/server/gpu-0") as (page, seen):
            acceptance = chart(page, "acceptance_rate")
            await expect(acceptance.locator(".moment-text")).to_contain_text("fall began")
            await expect(acceptance.locator(".mark-text")).to_contain_text(["normal", "ticket below 60%"])
            for figure in ("speedup", "drift_score", "running_requests", "draft_length", "draft_coverage"):
                await expect(chart(page, figure).locator(".line")).to_be_attached()
            await expect(acceptance.locator("svg.chart")).to_have_attribute(
                "aria-label", re.compile(r"^Acceptance rate over the last 1 h: now \d+%, between \d+% and \d+%$")
            )
            await acceptance.locator("svg.chart").hover(position={"x": 300, "y": 50})
            await expect(acceptance.locator(".readout")).to_contain_text(re.compile(r"\d\d:\d\d \d+\.\d%"))
            await expect(chart(page, "speedup").locator(".readout")).to_contain_text("×")
            positions = page.locator(".positions")
            await expect(positions.locator("thead")).to_contain_text(re.compile(r"before \d\d:\d\d"))
            now, before = await positions.locator("tbody tr").last.locator(".figure").all_text_contents()
            assert float(now.rstrip("%")) < 20 < 60 < float(before.rstrip("%"))
            await page.get_by_role("link", name="6 h").click()
            await expect(acceptance.locator(".axis")).to_contain_text("6\u00a0h")
            assert page.url.endswith("#/server/gpu-0?range=6h")
            await page.go_back()
            await expect(acceptance.locator(".axis")).to_contain_text("60\u00a0min")
            assert seen.complaints == []


async def changes_noted(url: str, ended: bool) -> None:
    """Return when the sidecar has noted a change of acceptance, or its end; it looks every few seconds."""
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            async with session.get(f"{url}/api/v1/changes") as answer:
                if any((change["ended_at"] is not None) == ended for change in await answer.json()):
                    return
            await asyncio.sleep(0.1)
    pytest.fail("no change was noted")


@pytest.mark.browser
async def test_a_change_that_is_over_stays_in_the_chart():
    script = [Phase(1500, "home", HOME), Phase(600, "foreign", FOREIGN), Phase(traffic=HOME)]
    async with rehearsing([SimulatedServer("gpu-0", running=4, script=script)]) as rehearsal:
        await rehearsal.play(2100, WHOLE_STEP)
        await changes_noted(rehearsal.url, ended=False)
        await rehearsal.play(1200, WHOLE_STEP)
        await changes_noted(rehearsal.url, ended=True)
        async with page_of(f"{rehearsal.url}/#/server/gpu-0") as (page, _):
            told = chart(page, "acceptance_rate").locator(".moment-text")
            await expect(told).to_contain_text(["fall began", "over"])


@pytest.mark.browser
async def test_raw_counters_are_those_of_the_servers_own_page():
    server = SimulatedServer("gpu-0", running=4, engines=2)
    async with rehearsing([server]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        drafts = [
            f"{sample.value:,.0f}"
            for family in text_string_to_metric_families(server.page())
            for sample in family.samples
            if sample.name == "vllm:spec_decode_num_drafts_total"
        ]
        async with page_of(f"{rehearsal.url}/#/server/gpu-0") as (page, _):
            await page.get_by_text("As scraped at").click()
            shown = page.locator(".counters tr", has_text="num_drafts_total").locator("td")
            await expect(shown).to_have_text(drafts)


@pytest.mark.browser
async def test_an_alert_is_silenced_and_the_silence_ended():
    async with rehearsing([SimulatedServer("gpu-0", running=4, traffic=HOPELESS)]) as rehearsal:
        await rehearsal.play(1200, WHOLE_STEP)
        async with page_of(f"{rehearsal.url}/#/alerts") as (page, seen):
            firing = page.locator("section", has=page.get_by_role("heading", name="Firing"))
            first = firing.locator(".alerts li", has_text="costs more than it gives")
            await first.locator("summary").click()
            await first.get_by_role("link", name="Silence it").click()
            form = page.locator("form.silence")
            await expect(form.get_by_label("Alert")).to_have_value("SpeculationSlowerThanNone")
            await expect(form.get_by_label("Server")).to_have_value("gpu-0")
            await expect(form.get_by_label("Who you are")).to_be_focused()
            await form.get_by_label("For").select_option(label="4 hours")
            await form.get_by_label("Who you are").fill("Ada")
            await form.get_by_label("Why").fill("<b>known</b>")
            await form.get_by_role("button", name="Silence").click()
            await expect(page.locator(".outcome")).to_have_text("Silenced for 4\u00a0h.")
            await expect(page.locator(".silences")).to_contain_text("<b>known</b>")
            silenced = page.locator("section", has=page.get_by_role("heading", name="Silenced"))
            await expect(silenced.locator(".alerts li")).to_contain_text(["costs more than it gives"])
            await expect(first).to_have_count(0)
            await page.get_by_role("button", name="End the silence").click()
            await expect(page.locator(".outcome")).to_have_text("The silence has ended.")
            await expect(first).to_have_count(1)
            assert seen.complaints == []


@pytest.mark.browser
async def test_alerts_that_another_explains_are_told_apart_and_messages_that_were_given_up_are_shown():
    servers = [SimulatedServer("gpu-0", running=4, traffic=HOPELESS)]
    async with (
        serving_pages({}) as nobody,
        rehearsing(servers, receivers=[webhook_receiver(f"{nobody}/hook")]) as rehearsal,
    ):
        await rehearsal.play(1200, WHOLE_STEP)
        async with page_of(f"{rehearsal.url}/#/alerts") as (page, seen):
            inhibited = page.locator("section", has=page.get_by_role("heading", name="Inhibited"))
            await inhibited.locator("summary").first.click()
            await expect(inhibited.locator(".more").first).to_contain_text("while SpeculationSlowerThanNone fires")
            await page.get_by_text("given up").click()
            await expect(page.locator(".dead-letters li").first).to_contain_text("404")
            assert seen.complaints == []


@pytest.mark.browser
async def test_a_silence_that_the_sidecar_refuses_is_not_said_to_be_made():
    async with rehearsing([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(f"{rehearsal.url}/#/alerts?target={'x' * 290}") as (page, _):
            await (
                page.locator("form.silence").get_by_label("Server").evaluate("field => field.value = 'x'.repeat(5000)")
            )
            await page.get_by_role("button", name="Silence").click()
            await expect(page.locator(".outcome")).to_contain_text("Not done: target:")


@pytest.mark.browser
async def test_the_page_says_what_metrics_say_of_the_same_window():
    async with rehearsing([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{rehearsal.url}/metrics") as answer:
                families = list(text_string_to_metric_families(await answer.text()))
            async with session.get(f"{rehearsal.url}/api/v1/catalogue") as answer:
                catalogue = await answer.json()
        told = {
            sample.name: sample.value
            for family in families
            for sample in family.samples
            if sample.labels.get("target") == "gpu-0" and sample.labels.get("window") == "5m"
            if "position" not in sample.labels
        }
        async with page_of(f"{rehearsal.url}/#/server/gpu-0") as (page, _):
            table = page.locator("section.windows table")
            await expect(table.locator("thead")).to_contain_text("5\u00a0min")
            heads = await table.locator("thead th").all_text_contents()
            column = next(index for index, head in enumerate(heads) if head.startswith("5\u00a0min")) - 1
            compared = 0
            for signal in catalogue:
                value = told.get(signal["metric"])
                shown = table.locator("tbody tr", has=page.get_by_role("rowheader", name=signal["title"], exact=True))
                if value is None or signal["name"].endswith(("_low", "_high")):
                    continue
                text = await shown.locator("td").nth(column).evaluate("cell => cell.firstChild.data")
                assert float(re.sub(r"[^\d.]", "", text)) == pytest.approx(
                    in_shown_unit(signal, value), rel=0.02, abs=0.051
                ), signal["name"]
                compared += 1
            assert compared >= 10


def in_shown_unit(signal: Mapping[str, str], value: float) -> float:
    """A value in the unit that the page shows it in: times, percent, milliseconds."""
    if signal["name"] == "estimated_speedup":
        return value
    return value * {"ratio": 100.0, "seconds": 1000.0}.get(signal["unit"], 1.0)


@pytest.mark.browser
async def test_targets_tell_how_reading_their_pages_goes():
    servers = [SimulatedServer(name, running=4) for name in ("up", "down", "unknown")]
    async with rehearsing(servers) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        servers[1].failure = Failure.SERVER_ERROR
        await rehearsal.play(WHOLE_STEP, WHOLE_STEP)
        rehearsal.service.watches["unknown"].unheard("Prometheus has no sample of it")
        async with page_of(f"{rehearsal.url}/#/targets") as (page, seen):
            rows = page.locator(".targets tbody")
            await expect(rows).to_have_count(3)
            await expect(rows.first).to_contain_text("500")
            await expect(rows.first.locator(".word")).to_have_text("Down")
            await expect(rows.last).to_contain_text("no sample of it")
            await expect(rows.last.locator(".word")).to_have_text("No news")
            await expect(rows.nth(1)).to_contain_text("0.32.0")
            await rows.nth(1).get_by_role("link").click()
            await expect(page.get_by_role("heading", name="up")).to_be_focused()
            assert seen.complaints == []
