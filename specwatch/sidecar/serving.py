"""The HTTP server of the sidecar: one that a page which listens to events does not keep from stopping."""

from __future__ import annotations

import socket

import uvicorn

from specwatch.sidecar.routes.events import Events
from specwatch.sidecar.tls import Tls
from specwatch.vllm.systemd import notify

CERTIFICATE_TICKS = 600
"""Of a tenth of a second: how often it is looked whether the certificate was renewed."""


class Server(uvicorn.Server):
    """uvicorn's, which ends the streams of events before it waits for answers under way, and renews its certificate."""

    def __init__(self, config: uvicorn.Config, events: Events, tls: Tls | None = None) -> None:
        super().__init__(config)
        self._events = events
        self._tls = tls
        if tls:
            config.load()
            config.ssl = tls.context

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and tell systemd so."""
        await super().startup(sockets)
        notify("READY=1")

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop."""
        if self._tls and counter % CERTIFICATE_TICKS == 0:
            self._tls.refresh()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving in order."""
        notify("STOPPING=1")
        self._events.close()
        await super().shutdown(sockets)
