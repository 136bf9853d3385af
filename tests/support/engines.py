"""Answers as Prometheus, Thanos, Mimir and VictoriaMetrics write them, and a server that gives them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from specwatch.collect import prometheus_query
from specwatch.collect.prometheus_query import Engine
from specwatch.config import SidecarConfig, load
from specwatch.vllm.page_lines import read_lines
from tests.support.pages import page_text

Samples = list[tuple[float, str]]
Series = tuple[dict[str, str], Samples]

LABELS = {"instance": "gpu-1:8000", "job": "vllm"}
V1, V1_BEFORE = page_text("vllm-0.32.0-v1-draft_model-es"), page_text("vllm-0.32.0-v1-draft_model-before")
V0 = page_text("vllm-0.8.5.post2-v0-draft_model-es2")


def engine(url: str, **options: Any) -> Engine:
    """What a configuration with these options would ask."""
    made = prometheus_query.from_config(load(SidecarConfig, None, {"from_prometheus": url, **options}))
    assert made is not None
    return made


def scraped(pages: Mapping[float, str], labels: Mapping[str, str] = LABELS, *, up: bool = True) -> list[Series]:
    """What an engine has of a target whose pages it scraped at these times: the wanted families alone."""
    series: dict[str, Series] = {}
    for at, page in pages.items():
        lines = [line for line in page.split("\n") if line.partition("{")[0].split(" ")[0] in prometheus_query.FAMILIES]
        for line, sample in zip(lines, read_lines(lines), strict=True):
            name = {"__name__": sample.name, **sample.labels, **labels}
            series.setdefault(line.rpartition(" ")[0], (name, []))[1].append((at, line.rpartition(" ")[2]))
    told = [ups(dict.fromkeys(pages, 1), labels)] if up else []
    return [*told, *series.values()]


def ups(values: Mapping[float, float], labels: Mapping[str, str] = LABELS) -> Series:
    """Whether scrapes worked."""
    return {"__name__": "up", **labels}, [(at, f"{value:g}") for at, value in values.items()]


def prometheus_says(series: Iterable[Series], warnings: Iterable[str] = ()) -> str:
    """An answer as Prometheus, Mimir and Thanos write it."""
    result = [{"metric": labels, "values": samples} for labels, samples in series]
    told: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    if warnings:
        told["warnings"] = list(warnings)
    return json.dumps(told, separators=(",", ":"))


def victoria_says(series: Iterable[Series], *, partial: bool = False) -> str:
    """An answer as VictoriaMetrics' cluster writes it: the mark first, series in no order, figures behind."""
    result = [{"metric": labels, "values": samples} for labels, samples in reversed(list(series))]
    told = {"status": "success", "isPartial": partial, "data": {"resultType": "matrix", "result": result}}
    return json.dumps({**told, "stats": {"seriesFetched": str(len(result)), "executionTimeMsec": 3}})


class StandIn:
    """An engine with samples of its own: it answers ranges of them, and remembers what it was asked."""

    def __init__(self, series: Iterable[Series] = (), now: float = 0.0) -> None:
        self.series = list(series)
        self.now = now
        self.failure: web.Response | None = None
        """Given in place of an answer."""
        self.warnings: tuple[str, ...] = ()
        self.asked: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.Response:
        """What it has of the range that is asked for."""
        self.asked.append(request)
        if self.failure is not None:
            return web.Response(body=self.failure.body, status=self.failure.status)
        found = re.search(r"\[(\d+)s\]$", request.query["query"])
        assert found is not None
        since = self.now - float(found[1])
        within = [(labels, [one for one in samples if since < one[0] <= self.now]) for labels, samples in self.series]
        text = prometheus_says([one for one in within if one[1]], self.warnings)
        return web.Response(text=text, content_type="application/json")
