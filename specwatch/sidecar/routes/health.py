"""``/healthz``: whether it serves. ``/readyz``: whether what it serves is fresh."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from specwatch.sidecar.service import Service

MOST_NAMES = 20
"""Of servers that are missing: an answer to a probe is read in a log."""

NOT_READY = 503

LATE_TURNS = 3
"""Scrapes that a target may miss before its figures are no longer fresh: one is missed now and then."""


@dataclass(frozen=True)
class Readiness:
    """Whether every target was tried, and tried lately."""

    ready: bool
    targets: int
    missing: int
    """Targets that were not tried yet, or not lately."""
    names: list[str]
    """The first of them."""
    why: str
    """What is missing, in words; empty where nothing is."""


def router(service: Service) -> APIRouter:
    """The routes for probes."""
    routes = APIRouter()

    @routes.get("/healthz", response_class=PlainTextResponse)
    async def read_health() -> str:
        """Answers while the process serves."""
        return "ok\n"

    @routes.get("/readyz", responses={NOT_READY: {"model": Readiness}})
    async def read_readiness(response: Response) -> Readiness:
        """Whether every target was scraped, or failed, lately; 503 and what is missing where not."""
        found = readiness(service)
        if not found.ready:
            response.status_code = NOT_READY
        return found

    return routes


def readiness(service: Service) -> Readiness:
    """A target that fails is known to, which is as fresh as can be. Without targets there is nothing to wait for."""
    oldest = service.clock.now() - LATE_TURNS * service.settings.interval - service.settings.limits.seconds
    untried = [name for name, tally in service.tallies.items() if tally.ended_at is None]
    late = [name for name, tally in service.tallies.items() if tally.ended_at is not None and tally.ended_at < oldest]
    missing = [*untried, *late]
    counts = ((len(untried), "not tried yet"), (len(late), "not tried lately"))
    why = ", ".join(f"{count} of {len(service.tallies)} targets {what}" for count, what in counts if count)
    if service.reader and (service.reader.last_success or 0.0) < oldest:
        why = f"Prometheus gives no answer: {service.reader.error or 'none so far'}"
        return Readiness(False, len(service.tallies), len(missing), missing[:MOST_NAMES], why)
    return Readiness(not missing, len(service.tallies), len(missing), missing[:MOST_NAMES], why)
