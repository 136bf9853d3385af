"""A fleet that a sidecar scrapes and a real Prometheus scrapes: who reads the latter says the same of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import FOREIGN, HOME, Failure, Phase
from specwatch.lab.simulator import SimulatedServer
from specwatch.vllm.metrics import Counter, read_page
from tests.support.prometheus import prometheus
from tests.support.services import newer_program, prometheus_binary
from tests.support.sidecars import Running, sidecar

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

LONGEST = "6h"
"""The window that all of it is in, however long the machine takes."""

BY_COUNTERS = (
    "acceptance_rate",
    "acceptance_length",
    "position_acceptance",
    "draft_length",
    "draft_coverage",
    "estimated_speedup",
    "step_latency",
    "inter_token_latency",
)
"""Signals that are quotients of counters alone, so that it does not matter when exactly they were scraped."""


def servers() -> list[SimulatedServer]:
    """V1 and V0, several engines, no speculation."""
    return [
        SimulatedServer("two", k=5, engines=2, traffic=HOME, running=4, seed=1),
        SimulatedServer("three", k=3, traffic=FOREIGN, running=3, waiting=2, seed=2),
        SimulatedServer("plain", k=None, running=2, seed=3),
        SimulatedServer("old", release="0.8.5.post2", k=5, running=2, seed=4),
    ]


@pytest.mark.parametrize("generation", ["packaged", "newer"])
async def test_a_fleet_is_the_same_scraped_and_from_prometheus(generation: str, tmp_path: Path):
    binary = prometheus_binary() if generation == "packaged" else newer_program("prometheus")
    async with Fleet(servers(), speed=0) as fleet, AsyncExitStack() as engine:
        fleet.advance(120)
        urls = {server.name: url for server, url in zip(fleet.servers, fleet.urls, strict=True)}
        there = await engine.enter_async_context(prometheus(tmp_path, scraping(urls), binary=binary))
        options = ("--listen", "127.0.0.1:0", "--interval", "0.5", "--num-speculative-tokens", "5")
        targets = [word for name, url in urls.items() for word in ("--target", f"{name}={url}")]
        async with sidecar(*targets, *options) as direct, sidecar("--from-prometheus", there.url, *options) as through:
            await live_through(fleet, (direct, through))
            # A scrape that a busy machine delays is one that failed for either of the two, until the next.
            await until(lambda: differences(direct, through), {})
            read = described(await through.signals())
            assert (read["two"]["restarts"], read["two"]["dialect"], read["old"]["dialect"]) == (1, "v1", "v0")
            assert read["two"]["acceptance_rate"] > read["three"]["acceptance_rate"] > 0
            assert read["old"]["since_start"]["acceptance_length"] > 1
            view = await told(through, "/api/v1/targets")
            (source,) = view["sources"]
            assert (source["kind"], source["job"], source["error"]) == ("from_prometheus", 'job="vllm"', None)
            assert {target["found_in"] for target in view["targets"]} == {there.url}
            await engine.aclose()
            await until(lambda: states(through), dict.fromkeys(urls))
            assert "no connection" in (await told(through, "/api/v1/targets"))["targets"][0]["error"]
            assert "specwatch_prometheus_up 0.0" in (await through.get("/metrics"))[1]
            await until(lambda: status(through, "/readyz"), 503)


async def live_through(fleet: Fleet, both: Sequence[Running]) -> None:
    """Traffic, a restart and a failure. Time stands still until both have seen each step."""
    await seen(fleet, both)
    for seconds in (30.0, 30.0, 30.0):
        fleet.advance(seconds)
        await seen(fleet, both)
    fleet.servers[0].restart()
    fleet.advance(40.0)
    await seen(fleet, both)
    fleet.servers[1].apply(Phase(failure=Failure.DOWN))
    for it in both:
        await until(lambda it=it: states(it), {"two": True, "three": False, "plain": True, "old": True})
    fleet.servers[1].apply(Phase(failure=Failure.NONE))
    fleet.advance(30.0)
    await seen(fleet, both)


def scraping(urls: Mapping[str, str]) -> Mapping[str, Any]:
    """Prometheus' configuration."""
    targets = [{"targets": [url.removeprefix("http://")], "labels": {"instance": name}} for name, url in urls.items()]
    return {"scrape_configs": [{"job_name": "vllm", "scrape_interval": "1s", "static_configs": targets}]}


async def seen(fleet: Fleet, both: Sequence[Running]) -> None:
    """Return when both have read the pages as they are now."""
    names = [server.name for server in fleet.servers]
    truth = [page.engines for page in map(read_page, [server.page() for server in fleet.servers])]
    generated = [engine.counters[Counter.GENERATION_TOKENS] for engines in truth for engine in engines.values()]
    for it in both:
        await until(lambda it=it: tokens(it, names), generated)


async def tokens(it: Running, names: Sequence[str]) -> list[float]:
    """What every engine had generated on the last page of its server."""
    pages = [await told(it, f"/api/v1/counters?target={name}") for name in names if name in await states(it)]
    counts = [count for page in pages for engine in page["engines"] for count in engine["counters"]]
    return [count["value"] for count in counts if count["name"] == Counter.GENERATION_TOKENS.value]


async def states(it: Running) -> Mapping[str, bool | None]:
    """Which servers are up."""
    return {target["name"]: target["up"] for target in (await told(it, "/api/v1/targets"))["targets"]}


def described(targets: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """What is said of every server, but for what depends on the moments of scrapes."""
    kept = ("up", "dialect", "model_name", "engines", "k", "restarts", "since_start")
    return {
        target["target"]["name"]: {
            **{name: target["windows"][LONGEST]["values"].get(name) for name in BY_COUNTERS},
            **{name: target[name] for name in kept},
        }
        for target in targets
    }


async def differences(direct: Running, through: Running) -> Mapping[str, Any]:
    """What the two say of every server that they do not say the same of."""
    scraped, read = described(await direct.signals()), described(await through.signals())
    return {name: (scraped.get(name), read.get(name)) for name in scraped | read if scraped.get(name) != read.get(name)}


async def told(it: Running, path: str) -> Any:
    """An answer of a sidecar's API."""
    code, body = await it.get(path)
    assert code == 200, body
    return json.loads(body)


async def status(it: Running, path: str) -> int:
    """How a sidecar answers."""
    return (await it.get(path))[0]


async def until(ask: Callable[[], Awaitable[Any]], expected: Any, most: float = 60.0) -> None:
    """Return when what is asked is as expected."""
    last: Any = None
    for _ in range(int(most / 0.2)):
        last = await ask()
        if last == expected:
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"still {last}, not {expected}")
