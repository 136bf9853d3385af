"""``/api/v1/events``: server-sent events, so that a page asks when there is something new, and not before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse

from specwatch.waiting import within

MOST_LISTENERS = 64
"""Streams at a time: each holds a connection. Who comes too late asks every few seconds, as without events."""

SHORTEST_PAUSE = 1.0
"""Seconds between two events: figures that change faster cannot be read."""

BEAT_SECONDS = 15.0
"""Seconds without news after which a comment is sent: proxies close what is silent, commonly after 30 to 60 s, and a
listener that is gone shows only when something is sent to it."""

RETRY_AFTER = {"Retry-After": "30"}


class Events:
    """Tells listeners that something was scraped, until it is closed."""

    def __init__(self, scrapes: Callable[[], int], now: Callable[[], float]) -> None:
        """``scrapes`` counts the scrapes so far; ``now`` is the sidecar's time, unix seconds."""
        self._scrapes = scrapes
        self._now = now
        self._closed = asyncio.Event()
        self.listeners = 0

    def close(self) -> None:
        """End every stream, and open no more: before a stop waits for answers under way."""
        self._closed.set()

    @property
    def closed(self) -> bool:
        """Whether streams have been ended."""
        return self._closed.is_set()

    async def stream(self) -> AsyncIterator[str]:
        """One listener's events: one at once, then one whenever something was scraped, at most one a second."""
        self.listeners += 1
        try:
            told, silent = None, 0.0
            while not self.closed:
                if told != (told := self._scrapes()):
                    silent = 0.0
                    yield f"event: scraped\ndata: {json.dumps({'at': self._now()})}\n\n"
                elif silent >= BEAT_SECONDS:
                    silent = 0.0
                    yield ": nothing new\n\n"
                await self._pause()
                silent += SHORTEST_PAUSE
        finally:
            self.listeners -= 1

    async def _pause(self) -> None:
        with suppress(asyncio.TimeoutError):
            await within(SHORTEST_PAUSE, self._closed.wait())


def router(events: Events) -> APIRouter:
    """Listening to events."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
    async def listen() -> StreamingResponse:
        """Server-sent events: ``scraped`` with ``{"at": unix seconds}``, at most one a second."""
        if events.closed:
            raise HTTPException(503, detail="the sidecar is stopping")
        if events.listeners >= MOST_LISTENERS:
            raise HTTPException(503, detail=f"{MOST_LISTENERS} listen already", headers=RETRY_AFTER)
        return StreamingResponse(events.stream(), media_type="text/event-stream")

    return routes
