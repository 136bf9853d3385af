"""``/api/v1/alerts``: what fires and what may, what was resolved lately, and how the messages about it fare."""

from __future__ import annotations

import hashlib

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from specwatch.sidecar.alerts import AlertBook, AlertsView
from specwatch.sidecar.routes.tagged import tag

_VIEW = TypeAdapter(AlertsView)


def router(alerts: AlertBook) -> APIRouter:
    """Reading alerts: 304 to an ``If-None-Match`` of what it would say again."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/alerts", response_model=AlertsView)
    async def read_alerts(request: Request) -> Response:
        """Alerts that are pending or firing, those resolved lately, and what was delivered where."""
        body = _VIEW.dump_json(alerts.view())
        response = Response(body, media_type="application/json")
        # By what it says: alerts change with scrapes, deliveries and silences at moments of their own.
        tag(request, response, hashlib.blake2b(body, digest_size=8).hexdigest())
        return response

    return routes
