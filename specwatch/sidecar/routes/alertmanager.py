"""``/webhooks/alertmanager``: a fleet on Prometheus gets the sidecar's messages, with diagnosis and threads."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, HTTPException, Response

from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.relayed import PostedGroup


def router(alerts: AlertBook) -> APIRouter:
    """Taking what Alertmanager posts."""
    routes = APIRouter()

    @routes.post("/webhooks/alertmanager", status_code=HTTPStatus.NO_CONTENT)
    async def take(group: PostedGroup) -> Response:
        """Send a group of Alertmanager's alerts to the receivers of this sidecar; kept before this is answered."""
        if not alerts.has_receivers:
            raise HTTPException(409, detail="this sidecar has no receiver: nobody would be told")
        await alerts.relay(group)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    return routes
