"""A real Prometheus for the length of a test."""

from __future__ import annotations

import asyncio
import json
import math
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.services import prometheus_binary

READY_SECONDS = 30.0
"""Longest that Prometheus may take to start; it needs about one on an idle machine."""

POLL_SECONDS = 0.2
"""How often a test asks whether something has come true."""

STARTS = 3
"""Attempts to start: a port that was free may be taken by another test before Prometheus listens on it."""


@dataclass(frozen=True)
class Sample:
    """One series' value at one moment."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str
    session: aiohttp.ClientSession

    async def query(self, expr: str) -> list[Sample]:
        """The expression's value now; an AssertionError with Prometheus' words where it is not valid."""
        result = await self._ask("query", {"query": expr})
        return [Sample(entry["metric"], float(entry["value"][1])) for entry in result["result"]]

    async def query_range(
        self, expr: str, start: float, end: float, step: float
    ) -> list[tuple[Mapping[str, str], int]]:
        """Labels of every series between two unix times, and how many points it has."""
        result = await self._ask("query_range", {"query": expr, "start": start, "end": end, "step": step})
        return [(entry["metric"], len(entry["values"])) for entry in result["result"]]

    async def label_values(self, label: str, series: str) -> list[str]:
        """What Grafana's ``label_values(series, label)`` gives."""
        values: list[str] = await self._ask(f"label/{label}/values", {"match[]": series})
        return values

    async def wait_for(self, expr: str, seconds: float = 60.0) -> None:
        """Return when ``expr`` has a value; an AssertionError when it gets none in that time."""
        for _ in range(math.ceil(seconds / POLL_SECONDS)):
            if await self.query(expr):
                return
            await asyncio.sleep(POLL_SECONDS)
        raise AssertionError(f"no value of {expr} after {seconds:g} s")

    async def _ask(self, path: str, parameters: Mapping[str, Any]) -> Any:
        async with self.session.get(f"{self.url}/api/v1/{path}", params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        return answer["data"]


@asynccontextmanager
async def prometheus(folder: Path, config: Mapping[str, Any], rules: Sequence[Any] = ()) -> AsyncIterator[Prometheus]:
    """Prometheus with this configuration and these rule groups, its data under ``folder``."""
    rules_file = folder / "rules.json"
    rules_file.write_text(json.dumps({"groups": list(rules)}))
    config_file = folder / "prometheus.json"
    config_file.write_text(json.dumps({**config, "rule_files": [str(rules_file)]}))
    async with aiohttp.ClientSession() as session:
        process, url = await _started(folder, config_file, session)
        try:
            yield Prometheus(url, session)
        finally:
            process.terminate()
            await process.wait()


async def _started(
    folder: Path, config_file: Path, session: aiohttp.ClientSession
) -> tuple[asyncio.subprocess.Process, str]:
    log = folder / "prometheus.log"
    for _ in range(STARTS):
        port = _free_port()
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                prometheus_binary(),
                f"--config.file={config_file}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                stdout=output,
                stderr=output,
            )
        url = f"http://127.0.0.1:{port}"
        if await _is_ready(process, url, session):
            return process, url
    raise AssertionError(f"Prometheus did not start:\n{log.read_text()[-2000:]}")


async def _is_ready(process: asyncio.subprocess.Process, url: str, session: aiohttp.ClientSession) -> bool:
    for _ in range(math.ceil(READY_SECONDS / POLL_SECONDS)):
        if process.returncode is not None:
            return False
        try:
            async with session.get(f"{url}/-/ready") as response:
                if response.status == 200:
                    return True
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(POLL_SECONDS)
    process.terminate()
    await process.wait()
    return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
