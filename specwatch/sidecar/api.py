"""The sidecar over HTTP: signals, alerts, history, metrics, and the page that draws them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from specwatch import __version__
from specwatch.alerting.text import clean
from specwatch.sidecar import exporter
from specwatch.sidecar.access import Access
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api_document import RESPONSES, describe_access
from specwatch.sidecar.changes import Changes
from specwatch.sidecar.guard import Guard
from specwatch.sidecar.history import History
from specwatch.sidecar.loop_lag import LoopLag
from specwatch.sidecar.process_families import ProcessFamilies
from specwatch.sidecar.references import ReferenceEntry, References, Scope
from specwatch.sidecar.reload import Reloader
from specwatch.sidecar.routes import (
    alertmanager,
    counters,
    events,
    health,
    history,
    reload,
    servers,
    silences,
    store,
    targets,
    thresholds,
)
from specwatch.sidecar.routes import alerts as alert_routes
from specwatch.sidecar.server_board import ServerBoard
from specwatch.sidecar.service import Service
from specwatch.sidecar.store.database import Database
from specwatch.signals.catalogue import signals
from specwatch.signals.drift import DriftReading

PAGE_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
"""Media types of the page's files, by the end of their names."""

PAGE = files("specwatch.sidecar").joinpath("page")

PAGE_FILES: Mapping[str, str] = {
    entry.name: PAGE_TYPES[suffix] for entry in PAGE.iterdir() if (suffix := PurePath(entry.name).suffix) in PAGE_TYPES
}
"""What is served, with its media type: what the package holds and nothing else."""


@dataclass(frozen=True)
class SignalEntry:
    """One entry of the signal catalogue, as the page and other readers need it."""

    name: str
    metric: str
    unit: str
    title: str
    help: str


@dataclass(frozen=True)
class WhichReference:
    """A reference by its scope and name; the fleet's has an empty name."""

    scope: Scope
    name: str = ""


@dataclass(frozen=True)
class NewName(WhichReference):
    """A reference, and what it is to be called."""

    reference: str = "frozen"


def create_app(
    service: Service,
    alerts: AlertBook,
    local_only: bool = True,
    access: Access | None = None,
    database: Database | None = None,
    reloader: Reloader | None = None,
    public_url: str | None = None,
) -> FastAPI:
    """The application; it runs the service while it is up.

    ``local_only`` answers to loopback addresses and ``public_url`` alone; without ``access`` nobody is asked for a
    token; without ``database`` the past is kept in memory. Whoever opened the database closes it. Without ``reloader``
    nothing is reloaded.
    """
    database = database or Database()
    references = References(service, database)
    past, changes = History(service, database), Changes(references, service.clock, database)
    lag = LoopLag()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        hangup = reloader.on_hangup() if reloader else contextlib.nullcontext()
        async with alerts.delivering():
            works = (service.run(), references.keep(), past.keep(), changes.keep(), lag.keep())
            tasks = [asyncio.create_task(work) for work in works]
            try:
                with hangup:
                    yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await references.save()
                await past.save()
                await changes.look()

    app = FastAPI(
        title="specwatch sidecar",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,  # it would lead to whatever host was asked for
        responses=RESPONSES,
    )
    access = access or Access()
    if access.asks:
        describe_access(app, access.open_paths)
    refused: Counter[str] = Counter()
    app.add_middleware(Guard, access=access, local_only=local_only, refused=refused, public_url=public_url)
    _add_catalogue(app)
    _add_references(app, references)
    app.add_exception_handler(RequestValidationError, _what_is_wrong)
    app.include_router(alert_routes.router(alerts))
    app.include_router(silences.router(alerts))
    app.include_router(alertmanager.router(alerts))
    board = ServerBoard(service)
    app.include_router(servers.router(service, board))
    app.include_router(history.router(service.clock, past, changes))
    app.include_router(store.router(database))
    app.state.events = events.Events(lambda: board.scrapes, service.clock.now)
    app.include_router(events.router(app.state.events))
    app.include_router(counters.router(service))
    app.include_router(thresholds.router())
    app.include_router(health.router(service))
    app.include_router(targets.router(service))
    if reloader:
        app.include_router(reload.router(reloader))
    _add_plain_routes(app, service, alerts, ProcessFamilies(lag, refused, database, reloader))
    return app


async def _what_is_wrong(_: Request, problem: Exception) -> Response:
    """Name what cannot be used, and repeat none of it: NaN and lone surrogates cannot be written as an answer."""
    errors = problem.errors() if isinstance(problem, RequestValidationError) else []
    lines = [{"loc": [clean(str(part)) for part in error["loc"]], "msg": error["msg"]} for error in errors]
    return JSONResponse({"detail": lines}, 422)


def _add_catalogue(app: FastAPI) -> None:
    @app.get("/api/v1/catalogue")
    async def read_catalogue() -> list[SignalEntry]:
        """What the signals mean."""
        return [SignalEntry(s.name, s.metric, s.unit.value, s.title, s.help) for s in signals()]


def _add_references(app: FastAPI, references: References) -> None:
    @app.get("/api/v1/references")
    async def read_references() -> list[ReferenceEntry]:
        """The normal that drift is judged by, of every server, every model and the fleet."""
        return references.entries()

    @app.post("/api/v1/references/freeze")
    async def freeze(which: NewName) -> ReferenceEntry:
        """Keep a learned normal as it is, under a name, until it is learned anew by hand."""
        try:
            reading = await references.freeze(which.scope, which.name, which.reference)
        except ValueError as problem:
            raise HTTPException(409, detail=str(problem)) from None
        return _entry(which, reading)

    @app.post("/api/v1/references/relearn")
    async def relearn(which: WhichReference) -> ReferenceEntry:
        """Forget a normal, and take the traffic from now on as the new one."""
        return _entry(which, await references.relearn(which.scope, which.name))


def _entry(which: WhichReference, reading: DriftReading | None) -> ReferenceEntry:
    if reading is None:
        raise HTTPException(404, detail=f"no {which.scope.value} of that name is watched")
    return ReferenceEntry(which.scope, which.name, reading)


def _add_plain_routes(app: FastAPI, service: Service, alerts: AlertBook, process: ProcessFamilies) -> None:
    @app.get("/metrics", include_in_schema=False)
    async def read_metrics() -> Response:
        return Response(await exporter.gather(service, alerts) + process.render(), media_type=exporter.CONTENT_TYPE)

    @app.get("/", include_in_schema=False)
    async def read_page() -> Response:
        return _page_file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def read_page_file(name: str) -> Response:
        return _page_file(name)


def _page_file(name: str) -> Response:
    if name not in PAGE_FILES:
        raise HTTPException(404, detail="no such file")
    return Response(PAGE.joinpath(name).read_bytes(), media_type=PAGE_FILES[name])
