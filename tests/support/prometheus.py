"""A real Prometheus for the length of a test."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.daemon import POLL_SECONDS, daemon
from tests.support.services import prometheus_binary


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

    async def query(self, expr: str, at: float | None = None) -> list[Sample]:
        """The expression's value now or then; an AssertionError with Prometheus' words where it is not valid."""
        result = await self._ask("query", {"query": expr, **({} if at is None else {"time": f"{at:.3f}"})})
        return [Sample(entry["metric"], float(entry["value"][1])) for entry in result["result"]]

    async def query_range(
        self, expr: str, start: float, end: float, step: float
    ) -> list[tuple[Mapping[str, str], int]]:
        """Labels of every series between two unix times, and how many points it has."""
        result = await self._ask("query_range", {"query": expr, "start": start, "end": end, "step": step})
        return [(entry["metric"], len(entry["values"])) for entry in result["result"]]

    async def label_values(self, label: str, series: str, at: float | None = None) -> list[str]:
        """What Grafana's ``label_values(series, label)`` gives, now or over the hour until then."""
        hour = {} if at is None else {"start": f"{at - 3600:.3f}", "end": f"{at:.3f}"}
        values: list[str] = await self._ask(f"label/{label}/values", {"match[]": series, **hour})
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
async def prometheus(
    folder: Path,
    config: Mapping[str, Any],
    rules: Sequence[Any] = (),
    flags: Sequence[str] = (),
    binary: Path | None = None,
) -> AsyncIterator[Prometheus]:
    """Prometheus with this configuration and, beside its own, these rule groups; its data under ``folder``.

    ``binary`` is another one than the system's.
    """
    rules_file = folder / "rules.json"
    rules_file.write_text(json.dumps({"groups": list(rules)}))
    rule_files = [*config.get("rule_files", ()), str(rules_file)]
    config_file = folder / "prometheus.json"
    config_file.write_text(json.dumps({**config, "rule_files": rule_files}))

    def command(port: int) -> Sequence[str | Path]:
        return [
            binary or prometheus_binary(),
            f"--config.file={config_file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        ]

    async with aiohttp.ClientSession() as session, daemon(command, folder / "prometheus.log") as url:
        yield Prometheus(url, session)
