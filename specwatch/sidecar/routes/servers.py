"""``/api/v1/servers``: every server in a line, for lists of a thousand; ``/api/v1/signals``: all there is to say."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from fastapi import APIRouter, HTTPException, Request, Response

from specwatch import __version__
from specwatch.sidecar.routes.tagged import tag
from specwatch.sidecar.server_board import ServerBoard, ServerLine
from specwatch.sidecar.service import Service
from specwatch.sidecar.views import TargetView


@dataclass(frozen=True)
class ServersView:
    """All servers in short."""

    at: float
    """When the figures were worked out, unix seconds."""
    version: str
    interval: float
    """Seconds between two scrapes of a server."""
    targets: list[ServerLine]


@dataclass(frozen=True)
class SignalsView:
    """Targets at one moment."""

    at: float
    version: str
    targets: list[TargetView]


def router(service: Service, board: ServerBoard) -> APIRouter:
    """Reading servers. Both routes answer 304 to an ``If-None-Match`` of what they would say again."""
    routes = APIRouter(prefix="/api/v1")
    life = secrets.token_hex(4)  # another start counts from nothing, and is not to be taken for this one

    @routes.get("/servers")
    async def read_servers(request: Request, response: Response) -> ServersView:
        """Every server in short: what a list of them shows, over the headline window."""
        lines = await board.lines()
        tag(request, response, f"{life}-{board.revision}")
        return ServersView(board.at, __version__, service.settings.interval, lines)

    @routes.get("/signals")
    async def read_signals(request: Request, response: Response, target: str | None = None) -> SignalsView:
        """Every target, or one: state, signals by window, drift, findings. Nothing is new before the next scrape."""
        if target is None:
            tag(request, response, f"{life}-{board.scrapes}")
            return SignalsView(service.clock.now(), __version__, service.views())
        watch = service.watches.get(target)
        if watch is None:
            raise HTTPException(404, detail="no target of that name")
        await board.lines()
        tag(request, response, f"{life}-{service.tallies[target].scrapes}-{board.revision}")
        now = service.clock.now()
        return SignalsView(now, __version__, [watch.view(now, board.findings(target))])

    return routes
