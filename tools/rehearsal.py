"""A real sidecar over the simulated fleet, whose past is played in seconds: for pictures and for tests of the page.

    async with rehearsing(servers) as rehearsal:
        await rehearsal.play(1800)          # half an hour of scrapes, five seconds apart
        print(rehearsal.url)

Windows, drift and alerts run over the played time in their real lengths; only the waiting is left out.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from specwatch.alerting.receivers import Receiver
from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import http_session
from specwatch.collect.targets import Target
from specwatch.lab.fleet import Fleet
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Clock, Service, ServiceSettings
from specwatch.sidecar.serving import Server

NEVER = 3600.0 * 24
"""Seconds between the sidecar's own scrapes: only ``play`` is to scrape."""

START_SECONDS = 20.0
"""Longest the server may take to start."""


class PlayedClock(Clock):
    """Unix time that stands still until it is moved, and after ``release`` runs on by itself."""

    def __init__(self, at: float) -> None:
        self._at = at
        self._released: float | None = None

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._at if self._released is None else self._at + time.monotonic() - self._released

    def advance(self, seconds: float) -> None:
        """Move the time on."""
        self._at += seconds

    def release(self) -> None:
        """Let it run."""
        self._released = time.monotonic()


@dataclass
class Rehearsal:
    """A fleet, the sidecar that watches it, and the address of its page."""

    fleet: Fleet
    service: Service
    app: FastAPI
    clock: PlayedClock
    alerts: AlertBook
    url: str = ""

    async def play(self, seconds: float, step: float = 5.0) -> None:
        """Let this much time pass, with a scrape of every server at each step."""
        async with http_session() as session:
            for _ in range(round(seconds / step)):
                self.fleet.advance(step)
                self.clock.advance(step)
                for watch in self.service.watches.values():
                    await self.service.scrape_once(session, watch)


@asynccontextmanager
async def rehearsing(
    servers: Sequence[SimulatedServer],
    *,
    names: Mapping[str, str] | None = None,
    past: float = 3600.0,
    receivers: Sequence[Receiver] = (),
) -> AsyncIterator[Rehearsal]:
    """A served rehearsal; ``names`` gives servers other names as targets, ``past`` is how long ago time begins."""
    async with (
        offstage(servers, names=names, past=past, receivers=receivers) as rehearsal,
        serving(rehearsal.app) as rehearsal.url,
    ):
        yield rehearsal


@asynccontextmanager
async def offstage(
    servers: Sequence[SimulatedServer],
    *,
    names: Mapping[str, str] | None = None,
    past: float = 3600.0,
    receivers: Sequence[Receiver] = (),
) -> AsyncIterator[Rehearsal]:
    """The same, its page not served: ``serving(rehearsal.app)`` does so."""
    clock = PlayedClock(time.time() - past)
    alerts = AlertBook(receivers, clock=clock)
    async with Fleet(servers, speed=0) as fleet:
        targets = [
            Target((names or {}).get(server.name, server.name), f"{url}/metrics")
            for server, url in zip(fleet.servers, fleet.urls, strict=True)
        ]
        service = Service(
            targets, settings=ServiceSettings(interval=NEVER, limits=PATIENT), listener=alerts.judge, clock=clock
        )
        yield Rehearsal(fleet, service, create_app(service, alerts), clock, alerts)


@asynccontextmanager
async def serving(app: FastAPI, port: int = 0) -> AsyncIterator[str]:
    """Serve an application on loopback and give its address; port 0 takes a free one."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2), app.state.events)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await asyncio.wait_for(_started(server, task), START_SECONDS)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started:
        if task.done():
            task.result()
            raise RuntimeError("the server ended before it served")
        await asyncio.sleep(0.01)
