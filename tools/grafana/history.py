"""Hours of a simulated fleet and its sidecar in a real Prometheus, within a minute or two.

The story is played step by step; what Prometheus would have scraped is written down with the story's times and made
into blocks by promtool. Rules are evaluated by Prometheus itself, level by level, because one reads another's series.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import http_session
from specwatch.collect.targets import Target
from specwatch.lab.child import free_port
from specwatch.lab.fleet import Fleet
from specwatch.sidecar import exporter
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.sidecar.watch import WatchSettings
from tools import install_test_programs as programs
from tools.grafana import calibrated
from tools.grafana.scenes import HOMES, LIVED, STRETCH, Scene
from tools.grafana.twins import LONGEST_LAG
from tools.prometheus_blocks import Scrape, lines, write_blocks
from tools.rehearsal import NEVER, PlayedClock

RULES = Path(__file__).resolve().parent.parent.parent / "alerts" / "specwatch.rules.yml"

STEP = 30
"""Story seconds between scrapes, and between evaluations of rules: what alerts/ asks for."""

DATA = "data"
"""Folder of the database below that of a history."""

NAME = "__name__"

_COUNTED = ("_total", "_sum", "_count", "_bucket")


def instance(name: str) -> str:
    """What Prometheus and the sidecar call a server."""
    return f"{name}:8000"


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str
    session: aiohttp.ClientSession

    async def ask(self, path: str, **parameters: Any) -> Any:
        """The ``data`` of an answer; ValueError with Prometheus' words where there is none."""
        async with self.session.post(f"{self.url}/api/v1/{path}", data=parameters) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer.get('error')}")
        return answer["data"]

    async def over_time(self, expr: str, start: float, end: float, step: float = STEP) -> list[Any]:
        """Series of an expression between two unix times."""
        result: list[Any] = (await self.ask("query_range", query=expr, start=start, end=end, step=step))["result"]
        return result


@dataclass(frozen=True)
class History:
    """What Prometheus holds: the unix times of the story's first and last moment."""

    start: float
    end: float


async def play(scene: Scene, names: frozenset[str], folder: Path) -> History:
    """Live through a scene and write what was scraped of the series ``names`` into blocks below ``folder``."""
    # On the grid of evaluations, and short enough ago that the newest moment is not in the future.
    end = time.time() // STEP * STEP - STEP
    history = History(end - scene.seconds // STEP * STEP, end)
    clock, alerts = PlayedClock(history.start), AlertBook(())
    samples: list[str] = []
    async with Fleet(scene.servers, speed=0) as fleet, http_session() as session:
        addresses = zip(fleet.servers, fleet.urls, strict=True)
        targets = [Target(instance(server.name), f"{url}/metrics") for server, url in addresses]
        told = WatchSettings(curve=calibrated.curve())
        service = Service(
            targets,
            watch=told,
            settings=ServiceSettings(interval=NEVER, limits=PATIENT),
            listener=alerts.judge,
            clock=clock,
            cells=calibrated.cells(HOMES),
        )
        for moment in range(round(history.start) + STEP, round(end) + 1, STEP):
            fleet.advance(STEP / STRETCH)
            clock.advance(STEP)
            for watch in service.watches.values():
                await service.scrape_once(session, watch)
            pages = {("vllm", instance(server.name)): stretched(server.page()) for server in fleet.servers}
            pages["specwatch", "sidecar:9108"] = exporter.render(service, alerts).decode()
            samples += lines(_scrapes(pages, moment), names)
    write_blocks(_found(programs.PROMTOOL), folder / DATA, samples)
    return history


@lru_cache(maxsize=LIVED * 2 * (LONGEST_LAG + 1))
def stretched(page: str) -> str:
    """The page with its counters multiplied: a simulated second stands for so many of the story, and counts as many."""
    return "\n".join(map(_stretched, page.splitlines()))


def _stretched(line: str) -> str:
    series, _, value = line.rpartition(" ")
    is_counted = not line.startswith("#") and series.partition("{")[0].endswith(_COUNTED)
    return f"{series} {float(value) * STRETCH:.12g}" if is_counted else line


def _scrapes(pages: Mapping[tuple[str, str], str], moment: int) -> Iterator[Scrape]:
    for (job, name), page in pages.items():
        yield Scrape(moment, {"job": job, "instance": name}, f"up 1\n{page}")


async def evaluate_rules(history: History, folder: Path) -> None:
    """Add what the committed rules would have recorded, and the alerts that would have been pending and firing."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for level in levels(rules):
        async with prometheus(folder) as server:
            samples = [line for rule in level for line in await _evaluated(server, rule, history)]
        if samples:
            write_blocks(_found(programs.PROMTOOL), folder / DATA, samples)


def levels(rules: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Rules in groups that read only series of groups before."""
    left = list(rules)
    while left:
        missing = {rule["record"] for rule in left if "record" in rule}
        ready = [rule for rule in left if not missing & set(re.findall(r"[A-Za-z_:][\w:]*", rule["expr"]))]
        if not ready:
            raise ValueError(f"rules read each other in a circle: {sorted(missing)}")
        yield ready
        left = [rule for rule in left if rule not in ready]


async def _evaluated(server: Prometheus, rule: Mapping[str, Any], history: History) -> list[str]:
    series = await server.over_time(rule["expr"], history.start, history.end)
    own = {key: value for key, value in rule.get("labels", {}).items() if "{{" not in value}
    if "record" in rule:
        return [
            f"{rule['record']}{_labels(one['metric'] | own)} {value} {moment}\n"
            for one in series
            for moment, value in one["values"]
        ]
    wait = seconds(rule.get("for", "0s"))
    return [line for one in series for line in _alerting(rule["alert"], one, own, wait)]


def _alerting(name: str, series: Mapping[str, Any], own: Mapping[str, str], wait: float) -> Iterator[str]:
    """ALERTS and ALERTS_FOR_STATE as Prometheus keeps them."""
    labels = {**series["metric"], **own, "alertname": name}
    for run in _runs([moment for moment, _ in series["values"]]):
        for moment in run:
            state = "firing" if moment - run[0] >= wait else "pending"
            yield f"ALERTS{_labels({**labels, 'alertstate': state})} 1 {moment}\n"
            yield f"ALERTS_FOR_STATE{_labels(labels)} {run[0]} {moment}\n"


def _runs(moments: Iterable[float]) -> Iterator[list[float]]:
    for _, run in itertools.groupby(enumerate(moments), key=lambda pair: pair[1] - pair[0] * STEP):
        yield [moment for _, moment in run]


def _labels(labels: Mapping[str, str]) -> str:
    quoted = (f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(labels.items()) if key != NAME)
    return "{" + ",".join(quoted) + "}"


def seconds(duration: str) -> float:
    """Seconds of a duration as Prometheus writes it, such as 1m30s."""
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(float(count) * unit[letter] for count, letter in re.findall(r"(\d+)([smhd])", duration))


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus over the data below ``folder`` that scrapes nothing."""
    (folder / "prometheus.yml").write_text("{}\n")
    (folder / DATA).mkdir(exist_ok=True)
    port = free_port()
    with (folder / "prometheus.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            str(_found(programs.PROMETHEUS)),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / DATA}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=log,
            stderr=log,
        )
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            await _until_ready(session, url, process)
            yield Prometheus(url, session)
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _until_ready(session: aiohttp.ClientSession, url: str, process: asyncio.subprocess.Process) -> None:
    while process.returncode is None:
        with suppress(aiohttp.ClientError):
            async with session.get(f"{url}/-/ready") as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.2)
    raise RuntimeError(f"Prometheus ended with {process.returncode} before it was ready")


def _found(program: programs.Program) -> Path:
    path = programs.find(program)
    if path is None:
        raise RuntimeError(programs.remedy([program]))
    return path
