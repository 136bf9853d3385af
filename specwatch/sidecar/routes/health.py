"""``/healthz``: whether it serves. ``/readyz``: whether what it serves is fresh."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from specwatch.sidecar.service import Service

MOST_NAMES = 20
"""Of servers that are missing: an answer to a probe is read in a log."""

NOT_READY = 503


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
    """A target that fails is known to: it takes nothing from being ready."""
    untried = [name for name, watch in service.watches.items() if watch.up is None]
    why = f"{len(untried)} of {len(service.watches)} targets not tried yet" if untried else "every target was tried"
    return Readiness(not untried, len(service.watches), len(untried), untried[:MOST_NAMES], why)
