"""Hours of a simulated fleet and its sidecar in a real Prometheus, within a minute or two.

The story is played step by step; what Prometheus would have scraped is written down with the story's times and made
into blocks by promtool. Rules are evaluated by Prometheus itself, level by level, because one reads another's series.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from specwatch.collect.scraper import http_session
from specwatch.collect.targets import Target
from specwatch.lab.fleet import Fleet
from specwatch.sidecar import exporter
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Service, ServiceSettings
from tools import install_test_programs as programs
from tools.grafana.scenes import STRETCH, Scene
from tools.rehearsal import NEVER, PlayedClock

RULES = Path(__file__).resolve().parent.parent.parent / "alerts" / "specwatch.rules.yml"

STEP = 30
"""Story seconds between scrapes, and between evaluations of rules: what alerts/ asks for."""

_SAMPLE = re.compile(r"([A-Za-z_:][\w:]*)(\{.*\})? (\S+)")
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
    scraped = folder / "scraped.om"
    clock, alerts = PlayedClock(history.start), AlertBook(())
    async with Fleet(scene.servers, speed=0) as fleet, http_session() as session:
        addresses = zip(fleet.servers, fleet.urls, strict=True)
        targets = [Target(instance(server.name), f"{url}/metrics") for server, url in addresses]
        service = Service(targets, settings=ServiceSettings(interval=NEVER), listener=alerts.judge, clock=clock)
        with scraped.open("w") as file:
            for moment in range(round(history.start) + STEP, round(end) + 1, STEP):
                fleet.advance(STEP / STRETCH)
                clock.advance(STEP)
                for watch in service.watches.values():
                    await service.scrape_once(session, watch)
                for server in fleet.servers:
                    file.writelines(_scrape(server.page(), names, "vllm", instance(server.name), moment, STRETCH))
                page = exporter.render(service, alerts).decode()
                file.writelines(_scrape(page, names, "specwatch", "sidecar:9108", moment, 1.0))
            file.write("# EOF\n")
    make_blocks(scraped, folder)
    return history


def _scrape(page: str, names: frozenset[str], job: str, instance: str, moment: int, factor: float) -> Iterator[str]:
    """A page's samples as promtool reads them, counters multiplied by ``factor``.

    A simulated second stands for STRETCH seconds of the story: so much more is counted in them.
    """
    own = f'job="{job}",instance="{instance}"'
    yield f"up{{{own}}} 1 {moment}\n"
    for line in page.splitlines():
        found = _SAMPLE.fullmatch(line)
        if found and found[1] in names:
            labels = f"{found[2][1:-1]},{own}" if found[2] and found[2] != "{}" else own
            value = float(found[3]) * (factor if found[1].endswith(_COUNTED) else 1)
            yield f"{found[1]}{{{labels}}} {value:.12g} {moment}\n"


def make_blocks(samples: Path, folder: Path) -> None:
    """Add a file of samples to the data below ``folder``."""
    promtool = programs.find(programs.PROMTOOL)
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(samples), str(folder / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"promtool: {done.stderr[-2000:]}")


async def evaluate_rules(history: History, folder: Path) -> None:
    """Add what the committed rules would have recorded, and the alerts that would have been pending and firing."""
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    for number, level in enumerate(levels(rules)):
        written = folder / f"rules-{number}.om"
        async with prometheus(folder) as server:
            lines = [line for rule in level for line in await _evaluated(server, rule, history)]
        written.write_text("".join([*lines, "# EOF\n"]))
        if lines:
            make_blocks(written, folder)


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
    wait = _seconds(rule.get("for", "0s"))
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
    quoted = (f'{key}="{value}"'.replace("\n", "\\n") for key, value in sorted(labels.items()) if key != "__name__")
    return "{" + ",".join(quoted) + "}"


def _seconds(duration: str) -> float:
    unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return sum(float(count) * unit[letter] for count, letter in re.findall(r"(\d+)([smhd])", duration))


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus over the data below ``folder`` that scrapes nothing."""
    (folder / "prometheus.yml").write_text("{}\n")
    (folder / "data").mkdir(exist_ok=True)
    port = _free_port()
    with (folder / "prometheus.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            str(programs.find(programs.PROMETHEUS)),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
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
    print("Prometheus ended before it was ready", file=sys.stderr)
    raise RuntimeError(f"Prometheus ended with {process.returncode}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
