"""``POST /api/v1/reload``: read the configuration again, as SIGHUP does, and hear what came of it."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from specwatch.errors import InputError
from specwatch.sidecar.reload import Reloaded, Reloader


def router(reloader: Reloader) -> APIRouter:
    """The route."""
    routes = APIRouter()

    @routes.post(
        "/api/v1/reload", responses={409: {"description": "The configuration cannot be used; nothing changed."}}
    )
    async def reload() -> Reloaded:
        """Take up targets, scrape configurations, shard, interval and timeout; name what needs a restart."""
        try:
            return reloader.reload()
        except InputError as problem:
            raise HTTPException(409, detail=str(problem)) from None

    return routes
