"""What the demonstration runs on: a real vLLM server with a draft model, or the simulated fleet. Each with a sidecar.

Both serve the same two kinds of traffic, the draft's own and a foreign one, and are watched by a sidecar in a process
of its own that delivers its alerts to the sink.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from specwatch.lab.child import Child, free_port, running
from specwatch.lab.corpus import prompts
from specwatch.lab.fleet import Fleet
from specwatch.lab.models import LabModels
from specwatch.lab.simulator import demo_fleet
from specwatch.lab.sink import Sink
from specwatch.measure.load import Load

TIME_SCALE = 0.05
"""The demonstration's five minutes last fifteen seconds."""

K = 5
"""Draft tokens a step: the article's figure, and the usual start."""

CONCURRENCY = 2
"""Requests at a time: enough to keep a small machine's cores busy and leave room to watch."""

MAX_TOKENS = 120
"""Tokens a request asks for: a second or so on two cores."""

PROMPTS = 64
"""Different prompts of a kind, asked in turn."""

LONGEST_SHOW = 24 * 3600.0
"""Seconds after which the load ends, should nobody have stopped it."""

SERVED_NAME = "lab-target"

ROUTING_KEY = "0" * 32
"""What the sink takes for a PagerDuty routing key."""

CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
"""A gigabyte of KV cache is plenty for the lab's models, and nothing is to be asked of a hub."""

Waiting = Callable[[str, float], None]
"""Hears what is being waited for, and for how many seconds already."""


class Traffic(Protocol):
    """Switches what the servers are asked."""

    def home(self) -> None:
        """The traffic that the draft was made for."""

    def foreign(self) -> None:
        """Traffic that it was not."""


@dataclass(frozen=True)
class Stage:
    """A running set: where to look, and the lever."""

    page: str
    """URL of the sidecar."""
    servers: tuple[str, ...]
    traffic: Traffic
    child: Child
    """The process that everything hangs on."""


@asynccontextmanager
async def simulated(folder: Path, sink: Sink, waiting: Waiting, drifting: int | None = None) -> AsyncIterator[Stage]:
    """Three simulated replicas; all of them drift unless told how many."""
    async with Fleet(demo_fleet(drifting=drifting, epoch=time.time())) as fleet:
        address, page = _page_address()
        command = [*_specwatch("sidecar"), "--listen", address, "--config", str(_sidecar_config(folder, sink, page))]
        for server, url in zip(fleet.servers, fleet.urls, strict=True):
            command += ["--target", f"{server.name}={url}"]
        async with running("the sidecar", command, folder / "sidecar.log") as child:
            await child.until_healthy(f"{page}/healthz", 30.0, lambda seconds: waiting("starting the sidecar", seconds))
            yield Stage(page, fleet.urls, _FleetTraffic(fleet), child)


@dataclass(frozen=True)
class _FleetTraffic:
    fleet: Fleet

    def home(self) -> None:
        self.fleet.enter("healthy")

    def foreign(self) -> None:
        self.fleet.enter("foreign")


@asynccontextmanager
async def real(folder: Path, sink: Sink, waiting: Waiting, models: LabModels) -> AsyncIterator[Stage]:
    """A real vLLM server on the CPU, started by ``specwatch launch`` with the lab's draft model."""
    address, page = _page_address()
    port = free_port(preferred=8000)
    url = f"http://127.0.0.1:{port}"
    command = [*_specwatch("launch"), "--sidecar-listen", address]
    command += ["--sidecar-config", str(_sidecar_config(folder, sink, page)), *vllm_arguments(models, port)]
    async with running("vLLM", command, folder / "vllm.log", CPU_ENVIRONMENT) as child:
        await child.until_healthy(
            f"{page}/healthz", 600.0, lambda seconds: waiting("starting vLLM on the CPU, the sidecar after it", seconds)
        )
        home, foreign = prompts("json", PROMPTS, seed=1), prompts("es", PROMPTS, seed=1)
        load = Load(url, SERVED_NAME, home, CONCURRENCY, MAX_TOKENS)
        sending = asyncio.create_task(load.run(seconds=LONGEST_SHOW))
        try:
            yield Stage(page, (url,), _PromptTraffic(load, home, foreign), child)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


@dataclass(frozen=True)
class _PromptTraffic:
    load: Load
    home_prompts: list[str]
    foreign_prompts: list[str]

    def home(self) -> None:
        self.load.use(self.home_prompts)

    def foreign(self) -> None:
        self.load.use(self.foreign_prompts)


def vllm_arguments(models: LabModels, port: int) -> list[str]:
    """The command line that most articles print, on the lab's models."""
    return [
        *("--model", str(models.target), "--speculative-model", str(models.draft)),
        *("--num-speculative-tokens", str(K), "--host", "127.0.0.1", "--port", str(port)),
        # Compiling would need a C++ compiler and a minute, and gain nothing on models this small.
        *("--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager", "--served-model-name", SERVED_NAME),
    ]


def _specwatch(command: str) -> list[str]:
    return [sys.executable, "-m", "specwatch", command]


def _page_address() -> tuple[str, str]:
    """``HOST:PORT`` for the sidecar, and the URL it is reached at: the usual port where it is free."""
    address = f"127.0.0.1:{free_port(preferred=9108)}"
    return address, f"http://{address}"


def _sidecar_config(folder: Path, sink: Sink, page: str) -> Path:
    """A configuration that scrapes every second and delivers to the sink, its secrets by file."""
    secrets = {"slack-webhook": sink.slack_url, "pagerduty-routing-key": ROUTING_KEY}
    for name, secret in secrets.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret)
    entries = {
        "interval": 1.0,
        "time_scale": TIME_SCALE,
        "slack_webhook_file": str(folder / "slack-webhook"),
        "pagerduty_routing_key_file": str(folder / "pagerduty-routing-key"),
        "pagerduty_url": sink.pagerduty_url,
        "public_url": page,
    }
    path = folder / "sidecar.yml"
    path.write_text(yaml.safe_dump(entries))
    return path
