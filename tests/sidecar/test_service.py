from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from specwatch.collect.scraper import Limits, scrape
from specwatch.collect.targets import parse
from specwatch.sidecar.service import Clock, Service, ServiceSettings
from tests.support.http import answering, serving, text_page
from tests.support.pages import page_text

PAGE = page_text("vllm-0.32.0-v1-draft_model-es")


class StoppedClock(Clock):
    """Shows what ``at`` says."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.at


async def run_until(service: Service, condition: Callable[[], bool | None], most: float = 20.0) -> None:
    """Run the service until the condition holds."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    running = asyncio.create_task(service.run())
    try:
        await asyncio.wait_for(wait(), most)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_targets_that_hang_refuse_or_talk_nonsense_hold_up_no_other(caplog):
    caplog.set_level(logging.INFO)
    async with (
        serving({"/metrics": text_page(PAGE)}) as good,
        serving({"/metrics": text_page("not { metrics\n")}) as garbage,
        answering(b"", close=False) as silent,
    ):
        service = Service(
            [
                parse(f"good={good}"),
                parse(f"garbage={garbage}"),
                parse(f"silent={silent}"),
                parse("gone=http://127.0.0.1:1"),
            ],
            settings=ServiceSettings(interval=0.1, limits=Limits(seconds=0.3)),
        )
        await run_until(
            service, lambda: service.tallies["good"].scrapes >= 10 and service.tallies["silent"].scrapes >= 2
        )
    up = {view.target.name: view.up for view in service.views()}
    assert up == {"good": True, "garbage": True, "silent": False, "gone": False}
    findings = {view.target.name: view.findings[0].code for view in service.views()}
    assert findings["garbage"] == "not-vllm"
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "'gone'" in line]) == 1
    assert len([line for line in said if "'silent'" in line]) == 1


async def test_a_target_that_comes_back_is_said_to_answer_again(caplog):
    caplog.set_level(logging.INFO)
    broken = True

    async def page(request):
        return await text_page("half a li" if broken else PAGE)(request)

    async with serving({"/metrics": page}) as url:
        service = Service([parse(f"t={url}")], settings=ServiceSettings(interval=0.05))
        await run_until(service, lambda: service.tallies["t"].failures >= 2)
        broken = False
        await run_until(service, lambda: service.watches["t"].up)
    said = [record.getMessage() for record in caplog.records if record.name.startswith("specwatch")]
    assert said[-1] == "'t': answers again"


async def test_a_page_that_specwatch_itself_trips_over_costs_one_target_its_scrapes_and_no_other(caplog, monkeypatch):
    async def scrape_or_trip(session, target, limits):
        if target.name == "odd":
            raise ZeroDivisionError
        return await scrape(session, target, limits)

    monkeypatch.setattr("specwatch.sidecar.service.scrape", scrape_or_trip)
    async with serving({"/metrics": text_page(PAGE)}) as url:
        service = Service([parse(f"odd={url}"), parse(f"good={url}")], settings=ServiceSettings(interval=0.05))
        await run_until(service, lambda: min(tally.scrapes for tally in service.tallies.values()) >= 3)
    odd, good = service.views()
    assert (odd.up, good.up) == (False, True)
    assert "specwatch itself failed at this page (ZeroDivisionError)" in odd.findings[0].text
    assert service.tallies["odd"].failures == service.tallies["odd"].scrapes
    assert len([record for record in caplog.records if record.exc_info]) == 1


async def test_a_listener_that_fails_ends_no_watch(caplog):
    async def listener(watch, at):
        raise ZeroDivisionError

    async with serving({"/metrics": text_page(PAGE)}) as url:
        service = Service([parse(f"t={url}")], settings=ServiceSettings(interval=0.05), listener=listener)
        await run_until(service, lambda: service.tallies["t"].scrapes >= 3)
    assert service.watches["t"].up
    assert service.tallies["t"].failures == 0
    assert "a defect of specwatch" in caplog.text


async def test_a_page_is_of_the_moment_it_arrived_however_slowly_the_release_is_told():
    clock = StoppedClock()

    async def version(request):
        clock.at += 2.0
        return await text_page('{"version": "0.32.0"}')(request)

    async with serving({"/metrics": text_page(PAGE), "/version": version}) as url:
        service = Service([parse(f"t={url}")], clock=clock)
        await run_until(service, lambda: service.watches["t"].up)
    view = service.views()[0]
    assert (view.last_scrape, view.release) == (100.0, "0.32.0")
