"""What the page costs with 1, 200 and 1,000 servers: time to the first figures, memory, hold-ups, bytes on the wire.

    python -m benchmarks.page [--servers 1 --servers 200 --servers 1000] [--chromium PATH]

A real sidecar whose watches are fed with pages of twenty simulated servers, forty minutes of them, a real headless
Chromium without a GPU. Times are the browser's own clock, from the navigation's start: first paint of anything, of the
first server's figures, and until every row is built. Then every server's figures change at once, five times, and the
longest task of the browser says how long it would not have answered a key. Other load on the machine counts as ours.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
from playwright.async_api import Browser, Page

from specwatch.collect.targets import Target
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.vllm.metrics import Snapshot
from tools import install_test_programs as programs
from tools.browser import browsing
from tools.rehearsal import PlayedClock, serving

SIZES = (1, 200, 1000)

SOURCES = 20
"""Simulated servers; the watched ones share their pages, so that a thousand cost seconds to prepare."""

STEP = 60.0
"""Seconds between the pages of the past."""

PAST_STEPS = 40
"""Long enough to have learned a normal, and for a trend to draw."""

UPDATES = 5

UPDATE_SECONDS = 5.0
"""Real time between two changes of everything: a fleet scraped every five seconds changes all its rows in that time."""

SETTLE = 10.0
"""Seconds after which the sidecar works out a list of any size anew as soon as it is asked for."""

LONGEST = 120.0
"""Seconds that the rows may take: beyond that the machine is the news, not the page."""

NEVER = 1e9
"""Seconds between scrapes, as the page is told: it is not to call figures stale that are fed by hand."""

WATCH_PAINT = """
  window.seen = { tasks: [] };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) seen.tasks.push(entry.duration);
  }).observe({ type: "longtask", buffered: true });
  const watch = new MutationObserver(() => {
    if (!seen.figures && document.querySelector("tbody[data-server] .value")) {
      requestAnimationFrame(() => setTimeout(() => (seen.figures ??= performance.now())));
    }
    const rows = document.querySelectorAll("tbody[data-server]").length;
    if (!seen.all && rows && rows === document.querySelectorAll(".fleet tbody").length) seen.all = performance.now();
  });
  document.addEventListener("DOMContentLoaded", () => watch.observe(document, { childList: true, subtree: true }));
"""
"""Run in the page before its own scripts: notes when the first figures were painted and when all rows were there."""

TYPE = """
  async (text) => {
    const field = document.querySelector("input[type=search]");
    if (!field) return 0;
    const began = performance.now();
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
  }
"""


@dataclass(frozen=True)
class PageCost:
    """What one size of a fleet costs. Times in milliseconds, sizes in megabytes."""

    servers: int
    first_paint: float
    """Anything at all."""
    first_figures: float
    """The first server's figures, painted."""
    all_rows: float
    """Every row built, those below the screen too."""
    longest_at_start: float
    longest_in_update: float
    """The longest task of the browser while every figure changed."""
    filter: float
    """From a key in the filter to the painted answer."""
    heap: float
    """JavaScript's heap after a collection."""
    process: float
    """Resident memory of the page's process."""
    list_bytes: float
    """The list of servers, as the page asks for it."""
    signals_bytes: float
    """All signals of all servers, which the page does not ask for."""
    list_seconds: float
    """Milliseconds until the sidecar answered the list anew."""


class _Unmoved(Service):
    """A service that scrapes nothing by itself."""

    async def run(self) -> None:
        """Wait to be cancelled."""
        await asyncio.Event().wait()


class Fed:
    """A sidecar's service that is fed with pages by hand."""

    def __init__(self, servers: int) -> None:
        self.clock = PlayedClock(time.time() - STEP * PAST_STEPS)
        targets = [Target(f"gpu-{number}", f"http://127.0.0.1:9/{number}") for number in range(servers)]
        self.service = _Unmoved(targets, settings=ServiceSettings(interval=NEVER), clock=self.clock)
        self._sources = [
            SimulatedServer(f"s-{number}", running=1 + number % 4, traffic=HOME if number % 7 else FOREIGN, seed=number)
            for number in range(min(servers, SOURCES))
        ]

    def feed(self, steps: int) -> None:
        """Let time pass, and every server be scraped at each step."""
        for _ in range(steps):
            self.clock.advance(STEP)
            for source in self._sources:
                source.advance(STEP)
            pages: list[Snapshot] = [source.snapshot() for source in self._sources]
            for number, (name, watch) in enumerate(self.service.watches.items()):
                watch.observe(self.clock.now(), pages[number % len(pages)])
                self.service.tallies[name].scrapes += 1


async def measure(browser: Browser, servers: int) -> PageCost:
    """Open the page over a fleet of this size, and change everything a few times."""
    fed = Fed(servers)
    fed.feed(PAST_STEPS)
    async with serving(create_app(fed.service, AlertBook())) as url:
        sizes = [await _bytes(f"{url}/api/v1/{name}") for name in ("servers", "signals")]
        await asyncio.sleep(SETTLE)
        fed.feed(1)
        with _timed() as answered:
            await _bytes(f"{url}/api/v1/servers")
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        await page.add_init_script(WATCH_PAINT)
        await page.goto(url)
        await asyncio.wait_for(_all_rows(page), LONGEST)
        await asyncio.sleep(1.0)
        start = await page.evaluate("seen")
        paint = await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        await page.evaluate("seen.tasks.length = 0")
        for _ in range(UPDATES):
            fed.feed(1)
            await asyncio.sleep(UPDATE_SECONDS)
        tasks = await page.evaluate("seen.tasks")
        typed = [await page.evaluate(TYPE, text) for text in ("gpu-1", "gpu-11", "", "pays", "")]
        heap, process = await _memory(browser, page)
        await page.close()
    return PageCost(
        servers=servers,
        first_paint=paint,
        first_figures=start["figures"],
        all_rows=start["all"],
        longest_at_start=max(start["tasks"], default=0.0),
        longest_in_update=max(tasks, default=0.0),
        filter=median(typed),
        heap=heap,
        process=process,
        list_bytes=sizes[0] / 1e6,
        signals_bytes=sizes[1] / 1e6,
        list_seconds=answered[0] * 1e3,
    )


async def _all_rows(page: Page) -> None:
    """Return when every row is there. Waiting inside the page would take what its security policy forbids."""
    painted = "performance.getEntriesByName('first-contentful-paint').length"
    while not await page.evaluate(f"seen.all && seen.figures && {painted}"):
        await asyncio.sleep(0.1)


@contextmanager
def _timed() -> Iterator[list[float]]:
    took: list[float] = []
    began = time.perf_counter()
    yield took
    took.append(time.perf_counter() - began)


async def _bytes(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return len(await answer.read())


async def _memory(browser: Browser, page: Page) -> tuple[float, float]:
    """Megabytes of JavaScript's heap, and of the largest process that draws a page."""
    tab = await page.context.new_cdp_session(page)
    await tab.send("HeapProfiler.collectGarbage")
    usage: dict[str, Any] = await tab.send("Runtime.getHeapUsage")
    machine = await browser.new_browser_cdp_session()
    found: dict[str, Any] = await machine.send("SystemInfo.getProcessInfo")
    renderers = [process["id"] for process in found["processInfo"] if process["type"] == "renderer"]
    return usage["usedSize"] / 1e6, max(_resident(number) for number in renderers)


def _resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024 / 1e6


async def measure_all(chromium: Path, sizes: Sequence[int]) -> list[PageCost]:
    """One browser a size: what the one before left behind is not the next one's."""
    costs = []
    for servers in sizes:
        async with browsing(chromium) as browser:
            costs.append(await measure(browser, servers))
    return costs


def table(costs: Sequence[PageCost]) -> str:
    """The costs side by side."""
    units = {"heap": "MB", "process": "MB", "list_bytes": "MB", "signals_bytes": "MB", "servers": ""}
    lines = []
    for field in fields(PageCost):
        values = "".join(f"{getattr(cost, field.name):>12,.{_digits(field.name)}f}" for cost in costs)
        lines.append(f"{field.name.replace('_', ' '):20}{units.get(field.name, 'ms'):>3}{values}")
    return "\n".join(lines)


def _digits(name: str) -> int:
    return 3 if name.endswith("bytes") else 1 if name in ("heap", "process") else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 when all was measured, 1 when Chromium is missing."""
    parser = argparse.ArgumentParser(description="Measure what the page costs the browser and the sidecar.")
    parser.add_argument("--servers", type=int, action="append", help="a size of the fleet; 1, 200 and 1000 by default")
    parser.add_argument("--chromium", type=Path, help="the browser; without it, the one on this machine")
    options = parser.parse_args(arguments)
    chromium = options.chromium or programs.find(programs.CHROMIUM)
    if chromium is None:
        print(programs.remedy([programs.CHROMIUM]), file=sys.stderr)
        return 1
    print(table(asyncio.run(measure_all(chromium, options.servers or SIZES))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
