from __future__ import annotations

import re
from contextlib import AsyncExitStack
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import quote, urlsplit

import pytest
from fastapi.testclient import TestClient
from playwright.async_api import expect

from specwatch.lab.child import free_port
from specwatch.lab.scenario import FOREIGN, HOME, Failure, Phase
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import PAGE_FILES, create_app
from specwatch.sidecar.service import Service
from specwatch.sidecar.store.database import Database, StoreError
from tests.support.page import HOPELESS, WHOLE_STEP, figure, page_of, row, signals_of
from tools.rehearsal import offstage, rehearsing, serving


@pytest.mark.browser
async def test_the_worst_server_comes_first_and_the_sentence_names_it():
    servers = [
        SimulatedServer("fine", running=4),
        SimulatedServer("drifts", running=4, script=[Phase(720, "home", HOME), Phase(traffic=FOREIGN)]),
        SimulatedServer("costs", running=4, traffic=HOPELESS),
    ]
    async with rehearsing(servers) as rehearsal:
        await rehearsal.play(1080, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, _):
            headline = page.locator("h1")
            await expect(headline).to_contain_text(
                "3 servers: 1 pays, 1 costs: costs; 1 pays but drifted: drifts (this replica is off, since"
            )
            names = await page.locator("th.name a").all_text_contents()
            assert names == ["costs", "drifts", "fine"]
            await expect(row(page, "costs").locator(".remark")).to_contain_text("Speculation costs more than it gives")
            await expect(row(page, "fine").locator(".remark")).to_have_count(0)
            await expect(page.locator(".alerts .said").first).to_contain_text(
                "Speculation costs more than it gives on costs"
            )
            assert await page.title() == "1 costs · specwatch"


@pytest.mark.browser
async def test_nothing_leaves_the_host_and_the_console_stays_clean():
    async with rehearsing([SimulatedServer("gpu-0", running=4), SimulatedServer("gpu-1", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, seen):
            await expect(row(page, "gpu-0").locator(".sparkline .line")).to_be_attached()
            await expect(page.locator("h1")).to_have_text("All 2 servers pay.")
            await row(page, "gpu-0").locator(".verdict").click()
            await expect(page.locator(".chart .line").first).to_be_attached()
            await page.go_back()
            await expect(row(page, "gpu-1")).to_be_visible()
            assert {urlsplit(request).netloc for request in seen.requests} == {urlsplit(rehearsal.url).netloc}
            assert seen.complaints == []


@pytest.mark.browser
async def test_names_of_markup_and_of_300_characters_are_shown_as_text():
    name = "<script>document.title='owned'</script>" + "x" * 261
    model = "<img src=x onerror=\"document.title='owned'\">" + "m" * 256
    server = SimulatedServer("gpu-0", model_name=model, running=4, traffic=HOPELESS)
    async with rehearsing([server], names={"gpu-0": name}) as rehearsal:
        await rehearsal.play(1200, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, seen):
            await expect(page.locator("th.name a")).to_have_text(name)
            await expect(page.locator("th.name small").first).to_have_text(model)
            await expect(page.locator(".alerts .said").first).to_contain_text("<script>")
            await page.goto(f"{rehearsal.url}/#/server/{quote(name, safe='')}")
            await expect(page.locator("h2.server-name")).to_have_text(name)
            await expect(page.locator("dd", has_text="<img src=x")).to_have_text(model)
            for address in (
                page.url,
                *(f"{rehearsal.url}/{rest}" for rest in ("#/?group=model", "#/alerts", "#/targets")),
            ):
                for width in (1280, 360):
                    await page.set_viewport_size({"width": width, "height": 900})
                    await page.goto(address)
                    await expect(page.get_by_text("<script>").first).to_be_attached()
                    assert await page.locator("main img, main script").count() == 0
                    assert "owned" not in await page.title()
                    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, address
            assert seen.complaints == []


@pytest.mark.browser
async def test_a_server_opens_by_keyboard_and_back_returns_to_where_one_was():
    async with rehearsing([SimulatedServer("gpu-0", running=4), SimulatedServer("gpu-1", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, _):
            link = row(page, "gpu-1").get_by_role("link")
            await link.focus()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="gpu-1")).to_be_focused()
            assert page.url.endswith("#/server/gpu-1")
            rows = page.locator(".positions tbody tr")
            await expect(rows).to_have_count(5)
            await expect(page.locator(".windows thead")).to_contain_text("30 min")
            await page.go_back()
            await expect(link).to_be_focused()


@pytest.mark.browser
async def test_a_speedup_measured_against_a_plain_twin_is_shown_as_one_and_findings_say_what_to_do():
    fleet = [
        SimulatedServer("gpu-0", running=4, traffic=HOPELESS),
        SimulatedServer("plain", running=4, k=None),
    ]
    async with rehearsing(fleet) as rehearsal:
        await rehearsal.play(600, WHOLE_STEP)
        told = (await signals_of(rehearsal.url))["gpu-0"]
        async with page_of(rehearsal.url) as (page, _):
            cell = figure(page, "gpu-0", "Speedup")
            await expect(cell).to_contain_text(f"{told['speedups'][0]['value']:.2f}×")
            await expect(cell).to_contain_text("measured")
            await page.get_by_role("link", name="gpu-0").last.click()
            await expect(page.locator(".worth")).to_contain_text(
                "against servers of the same model without speculation"
            )
            first = told["findings"][0]
            await expect(page.locator(".findings li").first).to_contain_text(first["text"])
            await expect(page.locator(".findings .remedy").first).to_have_text(first["remedy"])


@pytest.mark.browser
async def test_figures_are_those_of_the_api_and_name_their_window_and_kind():
    async with rehearsing([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        values = (await signals_of(rehearsal.url))["gpu-0"]["windows"]["5m"]["values"]
        async with page_of(rehearsal.url) as (page, _):
            shown = {
                "Speedup": f"≤\u00a0{values['estimated_speedup']:.2f}×",
                "Acceptance": f"{values['acceptance_rate']:.1%}",
                "Length": f"{values['acceptance_length']:.2f}",
                "Coverage": f"{values['draft_coverage']:.0%}",
                "Batch size": f"{values['running_requests']:.1f}",
            }
            for column, text in shown.items():
                await expect(figure(page, "gpu-0", column)).to_have_text(text)
                await expect(figure(page, "gpu-0", column)).to_have_attribute("data-note", re.compile("5\u00a0min"))
            head = page.get_by_role("columnheader", name="Speedup")
            await expect(head).to_have_text("Speedupestimated, 5\u00a0min")


@pytest.mark.browser
async def test_what_is_not_known_has_no_value_instead_of_zero():
    servers = [
        SimulatedServer("idle", running=0),
        SimulatedServer("plain", k=None, running=4),
        SimulatedServer("down", running=4),
    ]
    async with rehearsing(servers) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        servers[2].failure = Failure.SERVER_ERROR
        await rehearsal.play(WHOLE_STEP, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, _):
            for name, verdict in {"idle": "No traffic", "plain": "Plain twin", "down": "Unreachable"}.items():
                await expect(row(page, name).locator(".verdict")).to_have_text(verdict)
            for name in ("idle", "plain"):
                await expect(figure(page, name, "Acceptance")).to_have_text("–")
                await expect(figure(page, name, "Speedup")).to_have_text("–")
            await expect(row(page, "down").locator(".remark")).to_contain_text("500")


@pytest.mark.browser
async def test_it_fits_a_phone_and_every_figure_keeps_its_name():
    async with rehearsing([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(rehearsal.url, width=360) as (page, _):
            cell = figure(page, "gpu-0", "Acceptance")
            await expect(cell).to_be_visible()
            label = await cell.evaluate("cell => getComputedStyle(cell, '::before').content")
            assert "Acceptance" in label
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.browser
async def test_it_says_when_the_sidecar_is_gone_and_when_it_is_back():
    async with offstage([SimulatedServer("gpu-0", running=4)]) as rehearsal, AsyncExitStack() as open_page:
        await rehearsal.play(300, WHOLE_STEP)
        rehearsal.clock.release()
        async with serving(rehearsal.app, port=free_port()) as url:
            page, _ = await open_page.enter_async_context(page_of(url))
            await expect(page.locator("#connection")).to_contain_text("Live")
        await expect(page.locator("#banner")).to_contain_text("Disconnected.")
        await expect(page.locator("#banner")).to_contain_text("The figures below are from")
        await expect(row(page, "gpu-0")).to_be_visible()
        again = create_app(rehearsal.service, AlertBook())
        async with serving(again, port=urlsplit(url).port or 0):
            await expect(page.locator("#connection")).to_contain_text("Live")
            await expect(page.locator("#banner")).to_be_empty()
            figures = figure(page, "gpu-0", "Acceptance")
            before = await figures.text_content()
            rehearsal.fleet.servers[0].traffic = FOREIGN
            await rehearsal.play(600, WHOLE_STEP)
            await expect(figures).not_to_have_text(before or "")


@pytest.mark.browser
async def test_it_says_when_the_sidecar_has_nothing_new():
    async with rehearsing([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        async with page_of(rehearsal.url) as (page, seen):
            await expect(page.locator("#connection")).to_contain_text("Live")
            rehearsal.service.settings = replace(rehearsal.service.settings, interval=1.0)
            await rehearsal.play(WHOLE_STEP, WHOLE_STEP)
            await expect(page.locator("#banner")).to_contain_text("Stale.")
            assert seen.complaints == []


@pytest.mark.browser
async def test_it_says_when_nothing_is_kept_and_what_is_lost_by_it(tmp_path):
    database = Database(tmp_path / "state.db")
    async with offstage([SimulatedServer("gpu-0", running=4)]) as rehearsal:
        await rehearsal.play(300, WHOLE_STEP)
        app = create_app(rehearsal.service, AlertBook(database=database), database=database)
        async with serving(app) as url, page_of(url) as (page, seen):
            await expect(row(page, "gpu-0")).to_be_visible()
            await expect(page.locator("#banner")).to_be_empty()
            await database.read(lambda c: c.execute("PRAGMA query_only = on").fetchall())
            with pytest.raises(StoreError):
                await database.write(lambda c: c.execute("DELETE FROM history_target").fetchall())
            await page.reload()
            await expect(page.locator("#banner")).to_contain_text(
                f"Not kept. Nothing can be written to the database {tmp_path}"
            )
            await expect(page.locator("#banner")).to_contain_text("(attempt to write a readonly database)")
            await expect(page.locator("#banner")).to_contain_text("history since then are lost")
            await database.read(lambda c: c.execute("PRAGMA query_only = off").fetchall())
            await database.write(lambda c: c.execute("DELETE FROM history_target").fetchall())
            await page.reload()
            await expect(row(page, "gpu-0")).to_be_visible()
            await expect(page.locator("#banner")).to_be_empty()
            assert seen.complaints == []
    database.close()


@pytest.mark.browser
async def test_it_says_where_a_damaged_database_was_put(tmp_path):
    (tmp_path / "state.db").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    database = Database(tmp_path / "state.db")
    await database.write(lambda c: c.execute("DELETE FROM history_target").fetchall())
    app = create_app(Service(), AlertBook(database=database), database=database)
    async with serving(app) as url, page_of(url, width=360) as (page, _):
        banner = page.locator("#banner")
        await expect(banner).to_contain_text("The database was damaged.")
        await expect(banner).to_contain_text(f"is kept as {tmp_path / 'state.db.damaged-'}")
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    database.close()


@pytest.mark.browser
async def test_it_says_what_is_missing_before_there_is_anything_to_show():
    async with serving(create_app(Service([]), AlertBook())) as url, page_of(url) as (page, _):
        await expect(page.locator("h1")).to_have_text("No server is watched")
        await expect(page.locator("#view")).to_contain_text("specwatch sidecar --target")


@pytest.mark.browser
async def test_a_link_to_a_server_that_is_not_watched_says_so_and_leads_back():
    servers = [SimulatedServer("one", running=4), SimulatedServer("two", running=4)]
    async with rehearsing(servers) as rehearsal, page_of(f"{rehearsal.url}/#/server/three") as (page, _):
        await expect(page.get_by_role("heading", name="No such server")).to_be_visible()
        await page.get_by_role("link", name="All servers").click()
        await expect(page.locator("h1")).to_have_text("All 2 servers: not scraped yet.")


class _Resources(HTMLParser):
    """What a document loads, and what it carries inline."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [name for name in given if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        source = given.get("src") if tag == "script" else given.get("href") if tag == "link" else None
        if source and not source.startswith("data:"):
            self.loaded.append(source)


def test_the_document_loads_only_files_of_the_page_and_carries_no_script_or_style():
    client = TestClient(create_app(Service([]), AlertBook(), local_only=False))
    resources = _Resources()
    resources.feed(client.get("/").text)
    assert resources.inline == []
    assert {f"page/{name}" for name in PAGE_FILES if name.endswith(".css")} < set(resources.loaded)
    for source in resources.loaded:
        answer = client.get(f"/{source}")
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_every_module_that_a_script_imports_is_served():
    client = TestClient(create_app(Service([]), AlertBook(), local_only=False))
    scripts = {name: client.get(f"/page/{name}") for name in PAGE_FILES if name.endswith(".js")}
    imported = {name for script in scripts.values() for name in re.findall(r'from "\./(.+?)";', script.text)}
    assert imported
    assert imported <= scripts.keys()
    # What is imported by what was imported would else be asked for one after the other.
    preloaded = set(re.findall(r'rel="modulepreload" href="page/(.+?)"', client.get("/").text))
    assert preloaded == imported


@pytest.mark.parametrize("name", ["../api.py", "%2e%2e%2fapi.py", "api.py", "__init__.py", "page.js/"])
def test_no_other_file_is_served(name):
    client = TestClient(create_app(Service([]), AlertBook(), local_only=False))
    assert client.get(f"/page/{name}", follow_redirects=False).status_code in (307, 404)
