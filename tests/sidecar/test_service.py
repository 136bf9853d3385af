from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import Limits, scrape
from specwatch.collect.targets import parse
from specwatch.sidecar.service import GONE_SECONDS, Clock, Service, ServiceSettings
from tests.support.http import answering, serving, text_page
from tests.support.pages import page_text

PAGE = page_text("vllm-0.32.0-v1-draft_model-es")

UNHURRIED = ServiceSettings(interval=0.05, limits=PATIENT)
"""Where nothing hangs: on a busy machine a good answer may take seconds."""


class StoppedClock(Clock):
    """Shows what ``at`` says."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.at


async def until(condition: Callable[[], object], most: float = 60.0) -> None:
    """Return when the condition holds."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), most)


async def run_until(service: Service, condition: Callable[[], object], most: float = 60.0) -> None:
    """Run the service until the condition holds."""
    running = asyncio.create_task(service.run())
    try:
        await until(condition, most)
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
            settings=ServiceSettings(interval=0.1, limits=Limits(seconds=3.0)),
        )
        expected = {"good": True, "garbage": True, "silent": False, "gone": False}

        def as_expected() -> bool:
            good, silent = service.tallies["good"], service.tallies["silent"]
            answered = good.scrapes - good.failures >= 10 and silent.failures >= 2
            return answered and {view.target.name: view.up for view in service.views()} == expected

        await run_until(service, as_expected)
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
    async def scrape_or_trip(session, target, limits, *more):
        if target.name == "odd":
            raise ZeroDivisionError
        return await scrape(session, target, limits)

    monkeypatch.setattr("specwatch.sidecar.service.scrape", scrape_or_trip)
    async with serving({"/metrics": text_page(PAGE)}) as url:
        service = Service([parse(f"odd={url}"), parse(f"good={url}")], settings=UNHURRIED)
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
        service = Service([parse(f"t={url}")], settings=UNHURRIED, listener=listener)
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


async def test_targets_come_and_go_while_the_others_go_on():
    async with serving({"/metrics": text_page(PAGE)}) as url:
        stays, leaves, comes = (parse(f"{name}={url}") for name in ("stays", "leaves", "comes"))
        service = Service([stays, leaves], settings=ServiceSettings(interval=0.05))
        running = asyncio.create_task(service.run())
        kept = service.watches["stays"]
        try:
            await until(lambda: service.tallies["stays"].scrapes and service.tallies["leaves"].scrapes)
            gone = service.tallies["leaves"]
            service.follow([comes, stays])
            left_at = gone.scrapes
            await until(lambda: service.tallies["comes"].scrapes >= 5)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert list(service.watches) == ["comes", "stays"]
    assert set(service.tallies) == {"comes", "stays"}
    assert service.watches["stays"] is kept
    assert gone.scrapes == left_at


async def test_a_target_that_returns_soon_is_known_again_and_one_that_does_not_is_forgotten():
    clock = StoppedClock()
    forgotten: list[str] = []

    async def forget(name: str) -> None:
        forgotten.append(name)

    target = parse("a=http://127.0.0.1:1")
    service = Service([target], clock=clock, forgotten=forget)
    known = service.watches["a"]
    service.follow([])
    clock.at += GONE_SECONDS - 1
    await service.sweep()
    service.follow([target])
    assert (service.watches["a"] is known, forgotten) == (True, [])
    service.follow([])
    clock.at += GONE_SECONDS
    await service.sweep()
    assert forgotten == ["a"]
    service.follow([target])
    assert service.watches["a"] is not known


async def test_a_target_that_moves_keeps_what_is_known_of_it_and_is_scraped_at_its_new_address():
    async with serving({"/metrics": text_page(PAGE)}) as url:
        service = Service([parse("a=http://127.0.0.1:1")], settings=ServiceSettings(interval=0.05))
        known = service.watches["a"]
        await run_until(service, lambda: known.up is False)
        service.follow([parse(f"a={url}")])
        await run_until(service, lambda: known.up)
    assert service.watches["a"] is known


async def test_turns_that_a_slow_scrape_left_out_are_counted():
    async def slow(request):
        await asyncio.sleep(0.2)
        return await text_page(PAGE)(request)

    async with serving({"/metrics": slow}) as url:
        service = Service([parse(f"a={url}")], settings=ServiceSettings(interval=0.05))
        await run_until(service, lambda: service.tallies["a"].scrapes >= 2)
    assert service.tallies["a"].missed >= 2
    assert service.tallies["a"].last_seconds >= 0.2
