"""A real vLLM server with the lab's models, the sidecar beside it, and traffic for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import requests
import yaml

from specwatch.lab import stage
from specwatch.lab.child import free_port
from specwatch.lab.corpus import prompts
from specwatch.lab.models import LabModels
from specwatch.measure.load import Load
from tests.support.processes import Running, running

START_SECONDS = 600.0
"""Longest that vLLM may take to serve; it needs 25 to 50 on two idle cores."""

TIME_SCALE = stage.TIME_SCALE
"""Five minutes last fifteen seconds, in the sidecar as in what ``gen-alerts`` writes."""

HOME, FOREIGN = "json", "es"
"""Domains of the lab's corpus: what the draft was made for, and what it was not."""

LONGEST_TRAFFIC = 1200.0
"""Seconds after which traffic ends, should a test hang."""


@dataclass(frozen=True)
class LabServer:
    """vLLM under ``specwatch launch``."""

    url: str
    page: str
    """URL of the sidecar."""
    launch: Running

    @property
    def instance(self) -> str:
        """Host and port, as Prometheus labels it."""
        return self.url.removeprefix("http://")


def specwatch(*words: str | Path) -> list[str | Path]:
    """A command line of specwatch, run by this Python."""
    return [sys.executable, "-m", "specwatch", *words]


@contextmanager
def launched(models: LabModels, folder: Path, *words: str) -> Iterator[LabServer]:
    """Start vLLM with the command line that articles print, and ``words``; wait until the sidecar beside it serves."""
    server, listen = free_port(), f"127.0.0.1:{free_port()}"
    config = folder / "sidecar.yml"
    config.write_text(yaml.safe_dump({"interval": 1.0, "time_scale": TIME_SCALE}))
    command = [
        *specwatch("launch", "--sidecar-listen", listen, "--sidecar-config", config),
        *stage.vllm_arguments(models, server),
        *("--tensor-parallel-size", "1", "--max-num-seqs", "64", "--speculative-max-model-len", "1024"),
        *("--per-request-spec-decode-metrics", "summary"),
        *words,
    ]
    with running(command, folder / "launch.log", stage.CPU_ENVIRONMENT) as program:
        program.until("the sidecar serves", lambda: answers(f"http://{listen}/healthz"), START_SECONDS)
        yield LabServer(f"http://127.0.0.1:{server}", f"http://{listen}", program)


def answers(url: str) -> bool:
    """Whether ``url`` can be read now."""
    try:
        return requests.get(url, timeout=2.0).ok
    except requests.RequestException:
        return False


@asynccontextmanager
async def traffic(url: str, domain: str = HOME) -> AsyncIterator[Load]:
    """A few requests of a domain under way at all times, until the end; none of them may have failed."""
    load = Load(url, stage.SERVED_NAME, some_prompts(domain), stage.CONCURRENCY, stage.MAX_TOKENS)
    sending = asyncio.create_task(load.run(seconds=LONGEST_TRAFFIC))
    try:
        yield load
    finally:
        load.stop()
        totals = await sending
    assert totals.errors == 0, f"{totals.errors} requests failed, the last one with: {totals.last_error}"


def some_prompts(domain: str, seed: int = 1) -> list[str]:
    """Prompts of one of the corpus' domains."""
    return prompts(domain, stage.PROMPTS, seed=seed)


async def watched(page: str) -> dict[str, Any]:
    """What a sidecar says of its only target."""
    timeout = aiohttp.ClientTimeout(total=30.0)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{page}/api/v1/signals") as response:
        (target,) = (await response.json())["targets"]
    return dict(target)
