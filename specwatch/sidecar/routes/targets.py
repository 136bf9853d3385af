"""``/api/v1/targets``: every target, where it was found, and how its scrapes fare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter

from specwatch.collect.discovery import Discovery, Drop
from specwatch.sidecar.service import Service


@dataclass(frozen=True)
class TargetEntry:
    """One target. Times are Unix seconds."""

    name: str
    url: str
    labels: Mapping[str, str]
    job: str
    """The scrape configuration that found it; empty where it was named by hand."""
    found_in: str
    up: bool | None
    """None before the first scrape."""
    error: str | None
    last_scrape: float | None
    """The last that gave a page."""
    seconds: float
    """How long the last scrape took."""
    lag: float
    """Seconds by which it began later than planned."""
    missed: int
    """Turns that were left out."""
    dialect: str | None
    release: str | None


@dataclass(frozen=True)
class SourceEntry:
    """One place where targets are found."""

    job: str
    kind: str
    found: int
    """Addresses that it last told."""
    error: str | None
    """Why it cannot be read now; what it said before stands."""
    last_success: float | None


@dataclass(frozen=True)
class TargetsView:
    """All targets, where they come from, and how many addresses were left out, by why."""

    at: float
    targets: list[TargetEntry]
    sources: list[SourceEntry]
    dropped: Mapping[str, int]
    invalid: str | None
    """One of the addresses that nothing can be asked at, and why."""


def router(service: Service) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.get("/api/v1/targets")
    async def read_targets() -> TargetsView:
        """What is watched, and what is found and not watched."""
        discovery = service.discovery
        return TargetsView(
            at=service.clock.now(),
            targets=_targets(service),
            sources=_sources(discovery) if discovery else [],
            dropped={drop.value: discovery.dropped[drop] if discovery else 0 for drop in Drop},
            invalid=discovery.invalid if discovery else None,
        )

    return routes


def _targets(service: Service) -> list[TargetEntry]:
    entries = []
    for name, watch in service.watches.items():
        tally, target = service.tallies[name], watch.target
        entries.append(
            TargetEntry(
                name=name,
                url=target.url,
                labels=target.labels,
                job=target.job,
                found_in=target.found_in,
                up=watch.up,
                error=watch.error,
                last_scrape=watch.last_scrape,
                seconds=tally.last_seconds,
                lag=tally.lag,
                missed=tally.missed,
                dialect=watch.dialect.value if watch.dialect else None,
                release=watch.release,
            )
        )
    return entries


def _sources(discovery: Discovery) -> list[SourceEntry]:
    return [
        SourceEntry(source.config.job_name, source.kind, source.found, source.error, source.last_success)
        for source in discovery.sources
    ]
