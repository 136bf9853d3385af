"""What watching many servers costs, and whether each is scraped in time: the sidecar and Prometheus on the same ones.

    python -m benchmarks.scrape --prometheus /path/to/prometheus --write    # both parts, about 15 minutes
    python -m benchmarks.scrape --only growth --growth 10 1000 --seconds 30
    python -m benchmarks.scrape --only long --servers 200 --minutes 2 --read-every 15

Simulated servers in processes of their own, each at its own address, serve pages as large as vLLM's. A real sidecar,
on one core, finds them in a file of targets and scrapes each every five seconds; so does Prometheus, at the same time,
on the other cores. What is told: scrapes due and made, turns missed, how late scrapes began, processor time and memory
of either. The long part is of many servers for ten minutes, the growth part of more and more of them, each for so long
that the costs of a scrape show.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from benchmarks.scrape_report import INTERVAL, PAGE, PICTURE, Cost, Lags, Result, draw, report, table, write
from benchmarks.scrape_servers import LAST_LINE
from specwatch.lab.child import free_port

SAMPLE_SECONDS = 5.0
"""Between looks at what the sidecar tells of its scrapes: each one's lag is seen once."""
SERVERS_A_PROCESS = 2500
WARM_SECONDS = 3 * INTERVAL
"""Before anything is counted: the first scrapes connect, ask for the release and learn the series."""
START_SECONDS = 120.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reader:
    """Something that scrapes: its process, and what it used so far."""

    process: subprocess.Popen[bytes]

    def cpu_seconds(self) -> float:
        """Processor time, of the program and of the system for it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_megabytes(self) -> float:
        """The most memory that it held at once."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


@contextmanager
def program(words: Sequence[str], log: Path, says: str, cores: Sequence[int] | None) -> Iterator[Reader]:
    """A program with its output in ``log``, on these cores, once that holds what it ``says`` when it is ready."""
    with log.open("w") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
    if cores:
        os.sched_setaffinity(process.pid, cores)
    try:
        give_up = time.monotonic() + START_SECONDS
        while says not in log.read_text():
            if process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"{words[0]} did not start:\n{log.read_text()}")
            time.sleep(0.05)
        yield Reader(process)
    finally:
        process.terminate()
        process.wait()


class Setting:
    """Servers, and those who read them, until the stack closes."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        every = sorted(os.sched_getaffinity(0))
        self._one, self._others = every[:1], every[1:] or every

    def servers(self, count: int) -> None:
        """Begin to serve, and list the addresses."""
        found: list[str] = []
        for first in range(0, count, SERVERS_A_PROCESS):
            log = self._folder / f"servers-{first}.log"
            part = str(min(SERVERS_A_PROCESS, count - first))
            words = (sys.executable, "-m", "benchmarks.scrape_servers", str(first), part)
            self._stack.enter_context(program(words, log, LAST_LINE, self._others))
            found += log.read_text().split()[:-1]
        (self._folder / "targets.json").write_text(json.dumps([{"targets": found}]))

    def _job(self) -> dict[str, Any]:
        return {"job_name": "vllm", "file_sd_configs": [{"files": [str(self._folder / "targets.json")]}]}

    def sidecar(self) -> tuple[Reader, str]:
        """The sidecar, and its URL."""
        config, log = self._folder / "sidecar.json", self._folder / "sidecar.log"
        config.write_text(json.dumps({"scrape_configs": [self._job()], "interval": INTERVAL, "listen": "127.0.0.1:0"}))
        words = (sys.executable, "-m", "specwatch", "sidecar", "--config", str(config))
        reader = self._stack.enter_context(program(words, log, "serving ", self._one))
        url = re.search(r"serving (http://\S+)/:", log.read_text())
        assert url  # noqa: S101
        return reader, url[1]

    def prometheus(self, binary: Path) -> tuple[Reader, str]:
        """Prometheus on the same targets, keeping what it scrapes, and its URL."""
        config, url = self._folder / "prometheus.json", f"127.0.0.1:{free_port()}"
        every = {"scrape_interval": f"{INTERVAL:g}s", "scrape_timeout": f"{INTERVAL:g}s"}
        config.write_text(json.dumps({"global": every, "scrape_configs": [self._job()]}))
        store = f"--storage.tsdb.path={self._folder / 'tsdb'}"
        words = (str(binary), f"--config.file={config}", store, f"--web.listen-address={url}")
        log = self._folder / "prometheus.log"
        return self._stack.enter_context(program(words, log, "ready to receive", self._others)), f"http://{url}"


def told(url: str) -> list[dict[str, Any]]:
    """What the sidecar says of its targets."""
    answer = requests.get(f"{url}/api/v1/targets", timeout=60)
    answer.raise_for_status()
    targets: list[dict[str, Any]] = answer.json()["targets"]
    return targets


def scraped_by_prometheus(url: str, seconds: float) -> int:
    """How often targets were up in the last ``seconds``."""
    query = f"sum(sum_over_time(up[{seconds:.0f}s]))"
    answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=60).json()
    return sum(int(float(sample["value"][1])) for sample in answer["data"]["result"])


def run(servers: int, seconds: float, binary: Path | None, read_every: float | None) -> Result:
    """Scrape ``servers`` servers for so long; ``read_every`` seconds somebody reads the sidecar's own metrics."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        setting = Setting(stack, Path(folder))
        setting.servers(servers)
        sidecar, url = setting.sidecar()
        other = setting.prometheus(binary) if binary else None
        wait_for(url, servers)
        time.sleep(WARM_SECONDS)
        # Processor time is taken within the counts, because telling these costs the sidecar some of it.
        before = Counts.of(url)
        began, cpu = time.monotonic(), sidecar.cpu_seconds()
        other_cpu = other[0].cpu_seconds() if other else 0.0
        lags = watch(url, began + seconds, read_every)
        taken, cpu = time.monotonic() - began, sidecar.cpu_seconds() - cpu
        other_cpu = other[0].cpu_seconds() - other_cpu if other else 0.0
        after = Counts.of(url)
        counted = after.at - before.at
        scrapes = after.scrapes - before.scrapes
        costs = [Cost("specwatch", scrapes / counted, cpu / taken, sidecar.peak_megabytes())]
        if other:
            reader, address = other
            rate = scraped_by_prometheus(address, taken) / taken
            costs.append(Cost("Prometheus", rate, other_cpu / taken, reader.peak_megabytes()))
        return Result(
            servers=servers,
            seconds=counted,
            scrapes=scrapes,
            failures=after.failures - before.failures,
            missed=after.missed - before.missed,
            lags=Lags.of(lags),
            costs=costs,
        )


@dataclass(frozen=True)
class Counts:
    """What the sidecar has counted so far, over all targets."""

    at: float
    scrapes: int
    failures: int
    missed: int

    @classmethod
    def of(cls, url: str) -> Counts:
        """From its own metrics."""
        lines = requests.get(f"{url}/metrics", timeout=120).text.splitlines()
        counted = [
            int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"specwatch_{name}_total{{")))
            for name in ("scrapes", "scrape_failures", "scrape_missed_turns")
        ]
        return cls(time.monotonic(), *counted)


def wait_for(url: str, servers: int) -> None:
    """Return once every server was scraped."""
    give_up = time.monotonic() + START_SECONDS
    while sum(target["last_scrape"] is not None for target in told(url)) < servers:
        if time.monotonic() > give_up:
            raise SystemExit("not every server could be scraped")
        time.sleep(1.0)


def watch(url: str, until: float, read_every: float | None) -> list[float]:
    """The lag of every scrape that is seen until then."""
    lags: list[float] = []
    seen: dict[str, float] = {}
    read_at = time.monotonic()
    while (now := time.monotonic()) < until:
        if read_every and now >= read_at:
            requests.get(f"{url}/metrics", timeout=120)
            read_at += read_every
        for target in told(url):
            if target["last_scrape"] != seen.get(target["name"]):
                seen[target["name"]] = target["last_scrape"]
                lags.append(target["lag"])
        time.sleep(max(0.0, min(now + SAMPLE_SECONDS, until) - time.monotonic()))
    return lags


GROWTH = (1, 10, 100, 500, 1000, 2000, 5000)
"""Servers."""


def main(words: Sequence[str] | None = None) -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrape", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("long", "growth"), help="one of the two parts")
    parser.add_argument("--servers", type=int, default=1000, help="of the long part (default: 1000)")
    parser.add_argument("--minutes", type=float, default=10.0, help="the same (default: 10)")
    parser.add_argument("--growth", type=int, nargs="+", default=GROWTH, help="servers of the growth part, in turn")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each of them (default: 20)")
    parser.add_argument("--prometheus", type=Path, help="its program; without, only the sidecar is measured")
    parser.add_argument("--read-every", type=float, help="seconds between readings of the sidecar's own /metrics")
    parser.add_argument("--write", action="store_true", help=f"put tables into {PAGE}, and {PICTURE} beside it")
    chosen = parser.parse_args(words)
    parts = {"growth": [(n, chosen.seconds) for n in chosen.growth], "long": [(chosen.servers, chosen.minutes * 60)]}
    for part, runs in parts.items():
        if chosen.only in (None, part):
            results = []
            for servers, seconds in runs:
                results.append(run(servers, seconds, chosen.prometheus, chosen.read_every))
                print(report(results[-1]), flush=True)
            if chosen.write:
                write(part, table(results), PAGE)
            if chosen.write and part == "growth":
                draw(results, PICTURE)


if __name__ == "__main__":
    main()
