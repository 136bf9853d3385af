from __future__ import annotations

import asyncio

import aiohttp
import httpx

from specwatch.collect.scraper import Limits
from specwatch.collect.targets import Target
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.routes.health import LATE_TURNS, readiness
from specwatch.sidecar.service import Service, ServiceSettings
from tools.rehearsal import PlayedClock, serving

AWAY = "http://127.0.0.1:1/metrics"
NOW = 1_800_000_000.0


def watching(*names: str) -> Service:
    settings = ServiceSettings(interval=5, limits=Limits(seconds=2))
    return Service([Target(name, AWAY) for name in names], settings=settings, clock=PlayedClock(NOW))


async def asked(service: Service) -> httpx.Response:
    transport = httpx.ASGITransport(create_app(service, AlertBook()))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:9108") as http:
        return await http.get("/readyz")


async def test_it_is_not_ready_before_every_target_was_tried_and_says_which_was_not():
    service = watching("a", "b", "c")
    service.tallies["b"].ended_at = NOW
    answer = await asked(service)
    assert answer.status_code == 503
    assert answer.json() == {
        "ready": False,
        "targets": 3,
        "missing": 2,
        "names": ["a", "c"],
        "why": "2 of 3 targets not tried yet",
    }


async def test_targets_that_are_down_keep_nobody_from_being_ready():
    service = watching("a", "b")
    async with aiohttp.ClientSession() as session:
        for watch in service.watches.values():
            await service.scrape_once(session, watch)
    answer = await asked(service)
    assert (answer.status_code, answer.json()["ready"], answer.json()["why"]) == (200, True, "")


def test_figures_that_are_old_are_not_ready():
    service = watching("a", "b")
    fresh = NOW - LATE_TURNS * 5 - 2
    service.tallies["a"].ended_at, service.tallies["b"].ended_at = fresh, NOW
    assert readiness(service).ready
    service.tallies["a"].ended_at = fresh - 0.1
    assert (readiness(service).names, readiness(service).why) == (["a"], "1 of 2 targets not tried lately")


def test_a_long_list_is_cut():
    found = readiness(watching(*(f"gpu-{number}" for number in range(1000))))
    assert (found.targets, found.missing, len(found.names)) == (1000, 1000, 20)


def test_without_targets_there_is_nothing_to_wait_for():
    assert readiness(watching()).ready


async def test_a_served_sidecar_becomes_ready_by_itself():
    service = Service([Target("a", AWAY), Target("b", AWAY)], settings=ServiceSettings(interval=0.2))
    async with serving(create_app(service, AlertBook())) as url, aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{url}/readyz") as answer:
                if answer.status == 200:
                    break
                assert answer.status == 503
            await asyncio.sleep(0.02)
