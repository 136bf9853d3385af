"""``/api/v1/counters``: what a server's page last said, before anything is worked out from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, HTTPException

from specwatch.sidecar.service import Service
from specwatch.vllm.metrics import SERIES, Counter, EngineSnapshot


@dataclass(frozen=True)
class Count:
    """One of vLLM's cumulative counters."""

    name: str
    series: Sequence[str]
    """The names that it has or had on vLLM's page, the newest first; none where it is added up from others."""
    value: float


@dataclass(frozen=True)
class EngineCounts:
    """One engine's counters since its start, and its gauges."""

    engine: str
    counters: list[Count]
    accepted_per_position: Sequence[float]
    """Accepted draft tokens by position, the first position first."""
    gauges: Mapping[str, float]
    """Requests that run and wait."""


@dataclass(frozen=True)
class Counts:
    """What the last readable page of a target said."""

    target: str
    at: float | None
    """When it was scraped, unix seconds; None before the first scrape."""
    process_start: float | None
    engines: list[EngineCounts]


GAUGES: Mapping[Counter, str] = {
    Counter.RUNNING_SECONDS: "running_requests",
    Counter.WAITING_SECONDS: "waiting_requests",
}
"""What the gauges are that these are integrated from."""


def router(service: Service) -> APIRouter:
    """Reading raw counters."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/counters")
    async def read_counters(target: str) -> Counts:
        """One target's counters as its page last had them, by engine."""
        watch = service.watches.get(target)
        if watch is None:
            raise HTTPException(404, detail="no target of that name")
        page = watch.snapshot
        engines = page.engines if page else {}
        return Counts(
            target=target,
            at=watch.last_scrape,
            process_start=page.process_start if page else None,
            engines=[_counts(name, engine) for name, engine in engines.items()],
        )

    return routes


def _counts(name: str, engine: EngineSnapshot) -> EngineCounts:
    counted = [Count(counter.value, SERIES.get(counter, ()), value) for counter, value in engine.counters.items()]
    gauges = {GAUGES[counter]: value for counter, value in engine.gauges.items()}
    return EngineCounts(name, counted, engine.accepted_per_position, gauges)
