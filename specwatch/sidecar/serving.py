"""The HTTP server of the sidecar: one that a page which listens to events does not keep from stopping."""

from __future__ import annotations

import socket
import time
from typing import Any

import uvicorn

from specwatch.sidecar.routes.events import Events
from specwatch.sidecar.tls import Tls
from specwatch.vllm.systemd import notify

CERTIFICATE_TICKS = 600
"""Of a tenth of a second: how often it is looked whether the certificate was renewed."""

HEAD_TICKS = 20
"""The same for connections that ask nothing."""

HEAD_SECONDS = 30.0
"""Longest a connection may ask nothing, or send the head of a request: connections are few, and nobody knows yet whose
it is. uvicorn waits for ever."""


class Server(uvicorn.Server):
    """uvicorn's, which ends the streams of events before it waits for answers under way, and renews its certificate."""

    def __init__(self, config: uvicorn.Config, events: Events, tls: Tls | None = None) -> None:
        super().__init__(config)
        self._events = events
        self._tls = tls
        self._silent: dict[Any, tuple[Any, float]] = {}
        """Connections that ask nothing, with their last request and since when on the monotonic clock."""
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
        if counter % HEAD_TICKS == 0:
            self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        known, self._silent = self._silent, {}
        for connection in self.server_state.connections.copy():
            request = connection.cycle  # type: ignore[union-attr]  # nothing here speaks by web sockets
            if request is not None and not request.response_complete:
                continue
            before, since = known.get(connection, (request, now))
            self._silent[connection] = request, since if before is request else now
            if now - self._silent[connection][1] > HEAD_SECONDS:
                connection.transport.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving in order."""
        notify("STOPPING=1")
        self._events.close()
        await super().shutdown(sockets)
