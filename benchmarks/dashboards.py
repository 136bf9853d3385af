"""What the dashboards cost Prometheus on a large fleet: time and samples of every panel, as one table.

    python -m benchmarks.dashboards --servers 200

A day of scrapes goes into a real Prometheus. A few servers are simulated for some minutes; the fleet repeats what their
counters gain, each server from another moment on: a query's cost depends on how many samples it reads, not on their
values. Every query is asked as Grafana asks it, over the dashboard's own three hours with a point a pixel, a scrape or
the panel's least interval. Reported are the processor's time that Prometheus took, which other work on the machine does
not change, the time that it took on the clock, and the samples that it read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.generate.dashboards import BOARDS, Settings
from specwatch.lab.scenario import FOREIGN, HOME
from specwatch.lab.simulator import SimulatedServer
from tools.grafana.history import Prometheus, prometheus, seconds
from tools.install_test_programs import PROMTOOL, find
from tools.prometheus_blocks import write_blocks

NOW = 1_700_006_400
"""The moment that is looked at: any whole hour."""

SIMULATED = 20
"""Scrapes whose gains the fleet repeats."""

BLOCK = 7200
"""Seconds that are written at a time: a block's."""

RANGE = 3 * 3600
"""Seconds that the dashboards show at first."""

SCREEN = 1920
"""Pixels across: Grafana asks for a point each, if scrapes are so close."""

REPEATS = 3

ALL = {"job": ".*", "model_name": ".*", "instance": ".*", "engine": ".*"}
CHOSEN = {**ALL, "interval": "5m", "gpus": "1", "weights": "35", "bandwidth": "2039"}

UNREAD = re.compile(r"_bucket$|_created$|^(?!vllm:)")
"""Samples of a page that no dashboard asks for."""

SIDECAR = (
    "drift_score",
    "drift_rise_score",
    "drift_reference_ratio",
    "drift_change_ratio",
    'speedup_ratio{kind="calibrated"}',
    "known_speedup",
    "saved_tokens_per_hour",
    "recommended_draft_tokens",
    'diagnosis{code="healthy",level="ok"}',
)
"""What a sidecar adds for every server: enough of it to see what its panels cost."""


@dataclass(frozen=True)
class Series:
    """One series of a pattern: what stands before its value, and what it gains from scrape to scrape."""

    name: str
    labels: str
    gains: Sequence[float]
    is_gauge: bool

    def value(self, scrape: int) -> float:
        """Its value at a scrape, the pattern repeated for ever."""
        rounds, rest = divmod(scrape, len(self.gains))
        if self.is_gauge:
            return self.gains[rest]
        return rounds * self.gains[-1] + (self.gains[rest - 1] if rest else 0.0)


@dataclass(frozen=True)
class Cost:
    """What one panel costs."""

    board: str
    panel: str
    queries: int
    seconds: float
    """Of the processor."""
    waited: float
    """On the clock."""
    samples: int


def patterns(scrape: float) -> list[list[Series]]:
    """What a few servers of different kinds gain from scrape to scrape."""
    servers = (
        SimulatedServer("a", k=5, running=4, traffic=HOME, seed=1),
        SimulatedServer("b", k=3, running=4, traffic=FOREIGN, seed=2),
        SimulatedServer("c", k=5, running=4, waiting=2, engines=2, traffic={HOME: 1.0, FOREIGN: 1.0}, seed=3),
        SimulatedServer("d", k=None, running=4, seed=4),
    )
    return [_pattern(server, scrape) for server in servers]


def _pattern(server: SimulatedServer, scrape: float) -> list[Series]:
    pages = []
    for _ in range(SIMULATED + 1):
        server.advance(scrape)
        pages.append(dict(_samples(server.page())))
    first = pages[0]
    found = []
    for series, start in first.items():
        name, _, labels = series.partition("{")
        is_gauge = not re.search(r"_(total|sum|count)$", name)
        values = [page[series] for page in pages[1:]]
        gains = values if is_gauge else [value - start for value in values]
        found.append(Series(name, re.sub(r'model_name="[^"]*",?', "", labels).rstrip("}").rstrip(","), gains, is_gauge))
    return found


def _samples(page: str) -> Iterator[tuple[str, float]]:
    for line in page.splitlines():
        series, _, value = line.rpartition(" ")
        if series and not line.startswith("#") and not UNREAD.search(series.partition("{")[0]):
            yield series, float(value)


def samples(servers: int, scrape: int, start: int, end: int, told: Sequence[Sequence[Series]]) -> Iterator[str]:
    """OpenMetrics lines of a fleet between two moments."""
    fleet = [(number, told[number % len(told)], _labels(number)) for number in range(servers)]
    for at in range(start, end, scrape):
        step = (at - NOW) // scrape + 1_000_000
        for number, series, labels in fleet:
            for each in series:
                own = f"{labels},{each.labels}" if each.labels else labels
                yield f"{each.name}{{{own}}} {each.value(step + number):.10g} {at}\n"
            yield f"up{{{labels}}} 1 {at}\n"
            target = labels.replace("instance=", "target=").replace('job="vllm"', 'job="specwatch"')
            for metric in SIDECAR:
                name, brace, further = metric.partition("{")
                yield f"specwatch_{name}{{{target}{',' + further if brace else '}'} 0.5 {at}\n"


def _labels(number: int) -> str:
    return f'job="vllm",instance="vllm-{number:03d}:8000",model_name="model-{number % 4}"'


async def costs(server: Prometheus, scrape: int) -> list[Cost]:
    """What every panel costs Prometheus."""
    found = []
    for board, make in BOARDS.items():
        for panel in make(Settings())["panels"]:
            told = [await _cost(server, panel, target, scrape) for target in panel.get("targets", ())]
            if told:
                seconds, waited, read = (sum(values) for values in zip(*told, strict=True))
                found.append(Cost(board.value, panel["title"], len(told), seconds, waited, int(read)))
    return found


async def _cost(
    server: Prometheus, panel: Mapping[str, Any], target: Mapping[str, Any], scrape: int
) -> tuple[float, float, float]:
    """Seconds of the processor, seconds on the clock and samples of one query."""
    expr = re.sub(r"\$(\w+)", lambda match: CHOSEN.get(match[1], match[0]), target["expr"])
    if target["instant"]:
        path, span = "query", {"time": NOW}
    else:
        points = panel.get("maxDataPoints", SCREEN * panel["gridPos"]["w"] / 24)
        step = max(scrape, seconds(panel.get("interval") or "0s"), math.ceil(RANGE / points))
        path, span = "query_range", {"start": NOW - RANGE, "end": NOW, "step": step}
    before = await _processor_seconds(server)
    told = [(await server.ask(path, query=expr, stats="all", **span))["stats"] for _ in range(REPEATS)]
    used = (await _processor_seconds(server) - before) / REPEATS
    waited = min(stats["timings"]["execTotalTime"] for stats in told)
    return used, waited, told[-1]["samples"]["totalQueryableSamples"]


async def _processor_seconds(server: Prometheus) -> float:
    """What Prometheus says that it has used."""
    async with server.session.get(f"{server.url}/metrics") as response:
        page = await response.text()
    found = re.search(r"^process_cpu_seconds_total (\S+)$", page, re.MULTILINE)
    if found is None:
        raise RuntimeError("Prometheus does not say what it uses of the processor")
    return float(found[1])


def table(found: Sequence[Cost]) -> str:
    """The costs in Markdown, the dearest first."""
    rows = ["| dashboard | panel | queries | processor | clock | samples read |", "|---|---|---|---|---|---|"]
    for cost in sorted(found, key=lambda cost: -cost.seconds):
        read = f"{cost.samples:,}".replace(",", " ")
        times = " | ".join(f"{seconds * 1000:.0f} ms" for seconds in (cost.seconds, cost.waited))
        rows.append(f"| {cost.board} | {cost.panel} | {cost.queries} | {times} | {read} |")
    return "\n".join(rows)


async def measure(folder: Path, servers: int, scrape: int, hours: float) -> list[Cost]:
    """Costs on a fleet of so many servers with so much history, in a Prometheus whose data is under ``folder``."""
    promtool = find(PROMTOOL)
    if promtool is None:
        raise SystemExit("Prometheus is missing: run make test-programs, which brings it")
    told = patterns(scrape)
    start = NOW - int(hours * 3600)
    for begin in range(start - start % BLOCK, NOW + 1, BLOCK):
        lines = samples(servers, scrape, max(begin, start), min(begin + BLOCK, NOW + scrape), told)
        await asyncio.to_thread(write_blocks, promtool, folder / "data", lines)
    async with prometheus(folder) as server:
        return await costs(server, scrape)


def main() -> int:
    """Measure, and fail where a panel takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--scrape", type=int, default=30, help="seconds between scrapes")
    parser.add_argument("--hours", type=float, default=25.0, help="hours of history")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds of the processor that a panel may take")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), chosen.servers, chosen.scrape, chosen.hours))
    print(table(found))
    if chosen.json:
        chosen.json.write_text(json.dumps([vars(cost) for cost in found], indent=2) + "\n")
    dear = [cost for cost in found if cost.seconds > chosen.limit]
    print(f"\n{len(found)} panels, {len(dear)} of them over {chosen.limit:g} s")
    return 1 if dear else 0


if __name__ == "__main__":
    sys.exit(main())
