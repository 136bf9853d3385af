"""What a fleet costs a sidecar that reads a Prometheus, and what it costs that Prometheus to be read.

    python -m benchmarks.from_prometheus --prometheus /path/to/prometheus --servers 1000 --seconds 60

The simulated servers of ``benchmarks.scrape`` are scraped by a Prometheus every fifteen seconds, which keeps all that
they say. First it is alone; then a sidecar, on one core, asks it as often. Told are processor time and memory of both,
and the size of an answer and the time that it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import requests

from benchmarks.scrape import Reader, Setting, program, scraped_by_prometheus, wait_for
from specwatch.lab.child import free_port

INTERVAL = 15.0
"""Seconds between scrapes, and between questions."""

WARM_SECONDS = 4 * INTERVAL
"""Before anything is counted: a start makes up for five minutes, here for the scrapes that there are."""


@dataclass(frozen=True)
class Outcome:
    """Processor time is in seconds a second."""

    servers: int
    alone: float
    """Of Prometheus that nobody reads."""
    read: float
    """Of Prometheus that is read."""
    sidecar: float
    megabytes: float
    """The most memory that the sidecar held at once."""
    scrapes: float
    """Scrapes of a server that the sidecar took in, a second."""
    due: float
    """Those that Prometheus made."""
    answer: dict[str, float]
    """The last answer by the sidecar's own metrics."""


def told(url: str) -> dict[str, float]:
    """The sidecar's metrics about asking, and all its scrapes together."""
    found: dict[str, float] = {"scrapes": 0.0}
    for line in requests.get(f"{url}/metrics", timeout=120).text.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith("specwatch_prometheus_") and "{" not in name:
            found[name.removeprefix("specwatch_prometheus_")] = float(value)
        elif name.startswith("specwatch_scrapes_total{"):
            found["scrapes"] += float(value)
    return found


def share(readers: Sequence[Reader], seconds: float) -> list[float]:
    """Processor time a second of each over that time."""
    before, began = [reader.cpu_seconds() for reader in readers], time.monotonic()
    time.sleep(seconds)
    taken = time.monotonic() - began
    return [(reader.cpu_seconds() - spent) / taken for reader, spent in zip(readers, before, strict=True)]


def run(servers: int, seconds: float, binary: Path) -> Outcome:
    """Measure with that many servers, for so long alone and for so long read."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, setting = Path(name), Setting(stack, Path(name))
        setting.servers(servers)
        there, address = _prometheus(stack, folder, binary)
        time.sleep(WARM_SECONDS)
        (alone,) = share([there], seconds)
        sidecar, url = _sidecar(stack, folder, address)
        wait_for(url, servers)
        time.sleep(WARM_SECONDS)
        before, began = told(url), time.monotonic()
        read, spent = share([there, sidecar], seconds)
        after, taken = told(url), time.monotonic() - began
        due = scraped_by_prometheus(address, taken) / taken
        scrapes = (after["scrapes"] - before["scrapes"]) / taken
        return Outcome(servers, alone, read, spent, sidecar.peak_megabytes(), scrapes, due, after)


def _prometheus(stack: ExitStack, folder: Path, binary: Path) -> tuple[Reader, str]:
    config, url = folder / "prometheus.json", f"127.0.0.1:{free_port()}"
    every = {"scrape_interval": f"{INTERVAL:g}s", "scrape_timeout": f"{INTERVAL:g}s"}
    job = {"job_name": "vllm", "file_sd_configs": [{"files": [str(folder / "targets.json")]}]}
    config.write_text(json.dumps({"global": every, "scrape_configs": [job]}))
    words = (
        str(binary),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={url}",
    )
    reader = stack.enter_context(program(words, folder / "prometheus.log", "ready to receive", None))
    return reader, f"http://{url}"


def _sidecar(stack: ExitStack, folder: Path, address: str) -> tuple[Reader, str]:
    log = folder / "sidecar.log"
    asking = ("--from-prometheus", address, "--interval", f"{INTERVAL:g}", "--listen", "127.0.0.1:0")
    words = (sys.executable, "-m", "specwatch", "sidecar", *asking)
    reader = stack.enter_context(program(words, log, "serving ", sorted(os.sched_getaffinity(0))[:1]))
    url = re.search(r"serving (http://\S+)/:", log.read_text())
    assert url  # noqa: S101
    return reader, url[1]


def report(outcome: Outcome) -> str:
    """What was measured, in words."""
    answer, scrapes = outcome.answer, outcome.scrapes
    return (
        f"{outcome.servers} servers: {scrapes:.1f} of {outcome.due:.1f} scrapes a second taken in; sidecar "
        f"{1000 * outcome.sidecar / max(scrapes, 1e-9):.2f} ms of processor time a scrape ({outcome.sidecar:.3f} of a "
        f"core), {outcome.megabytes:.0f} MB; Prometheus {outcome.alone:.3f} of a core alone, {outcome.read:.3f} read; "
        f"an answer: {answer['answer_series']:.0f} series, {answer['answer_bytes'] / 1e6:.1f} MB, "
        f"{answer['query_seconds']:.2f} s"
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.from_prometheus", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--prometheus", type=Path, required=True, help="its program")
    parser.add_argument("--servers", type=int, nargs="+", default=[1000], help="in turn (default: 1000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement (default: 60)")
    chosen = parser.parse_args(words)
    for servers in chosen.servers:
        print(report(run(servers, chosen.seconds, chosen.prometheus)), flush=True)


if __name__ == "__main__":
    main()
