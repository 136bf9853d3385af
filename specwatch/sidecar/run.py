"""Putting the sidecar together from its configuration, and serving it."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from specwatch.alerting import alertmanager
from specwatch.alerting.notification import Places
from specwatch.alerting.receivers import receivers
from specwatch.collect import prometheus_query
from specwatch.collect.discovery import Discovery, Wanted
from specwatch.config import SidecarConfig, is_loopback
from specwatch.errors import InputError, SpecwatchError
from specwatch.sidecar import access, tls
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.from_prometheus import PrometheusReader
from specwatch.sidecar.launched import Launched
from specwatch.sidecar.reload import Reloader, service_settings
from specwatch.sidecar.service import Clock, Service
from specwatch.sidecar.serving import Server
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals import fingerprint, gpus, model_cost
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.signals.fingerprint import Fingerprint
from specwatch.signals.roofline import Bound, Hardware
from specwatch.signals.speedup import ASSUMED, DraftCost, from_parameter_counts, given
from specwatch.vllm import calibration
from specwatch.vllm.calibration import Calibration
from specwatch.vllm.launch_record import LaunchRecord
from specwatch.vllm.preflight.models import AbsentModel, find
from specwatch.vllm.speculation import Speculation

if TYPE_CHECKING:
    from specwatch.sidecar.losslessness import LosslessnessChecks

log = logging.getLogger(__name__)

LARGEST_FINGERPRINTS = 4 * 2**20
"""Bytes: a thousand domains of ten K take about two million."""

MOST_CONNECTIONS = 512
"""At a time; more are answered 503. A Prometheus holds one, a browser six; a process may commonly have 1024 files."""

COLLECT_AFTER = 20_000
"""New objects after which Python looks for those that only hold each other: the work of many scrapes. After its own
700 it would look at every scrape, and hardly any object here is of that kind."""

DRAIN_SECONDS = 15
"""Longest a stop waits for answers under way and messages still to deliver."""


def run(config: SidecarConfig, host: str, port: int, reread: Callable[[], SidecarConfig]) -> None:
    """Serve until SIGINT or SIGTERM; raises InputError or SpecwatchError before anything is served.

    ``reread`` gives the configuration as it is whenever it is to be taken up again.
    """
    allowed, encryption = access.from_config(config, host), tls.from_config(config)
    engine, discovery = prometheus_query.from_config(config), Discovery(Wanted.of(config))
    launched = Launched(config.launch_record) if config.launch_record else None
    calibrated = calibration.read(config.calibration) if config.calibration else None
    settings = watch_settings(config, launched.record() if launched else None, calibrated)
    settings = settings.in_scaled_time(config.time_scale)
    clock, database = Clock(), Database(config.database)
    alerts = AlertBook(
        receivers(config),
        Places(page=config.public_url, runbooks=config.runbooks_url),
        time_scale=config.time_scale,
        clock=clock,
        database=database,
        alertmanagers=alertmanager.addresses(config),
        relay_only=config.relay_only,
    )
    service = Service(
        discovery.targets(),
        watch=settings,
        settings=service_settings(config),
        listener=alerts.judge,
        forgotten=alerts.forget,
        clock=clock,
        launched=launched,
        losslessness=_checks(config) if config.verify_every else None,
        cells=calibrated.cells if calibrated else (),
        scale=config.time_scale,
        discovery=discovery,
        reader=PrometheusReader(engine, discovery) if engine else None,
    )
    reloader = Reloader(config, reread, service, discovery)
    local_only = is_loopback(host) and not config.insecure
    app = create_app(
        service,
        alerts,
        local_only=local_only,
        access=allowed,
        database=database,
        reloader=reloader,
        public_url=config.public_url,
    )
    server = Server(
        uvicorn.Config(
            app,
            ws="none",  # nobody speaks by web sockets here
            http="h11",  # it bounds the head of a request, at 64 KiB; httptools does not
            log_config=None,  # its own logging would differ from the rest in form; None leaves the program's as it is
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        ),
        app.state.events,
        encryption,
    )
    _allow_connections()
    with _listen(host, port) as listener:
        _end_by_signals(server)
        url = _url(listener, "https" if encryption else "http")
        told = f"what {engine.url} has of {engine.selector}" if engine else ""
        what = told or _how_many(len(service.watches), len(config.scrape_configs))
        log.info("serving %s: a page, /metrics and /api/v1/signals, of %s", url, what)
        _collect_seldom()
        try:
            server.run(sockets=[listener])
        finally:
            database.close()


def _checks(config: SidecarConfig) -> LosslessnessChecks | None:
    """Imported by those who want them: they ask over aiohttp, which takes nine megabytes."""
    from specwatch.sidecar import losslessness

    return losslessness.from_config(config)


def _collect_seldom() -> None:
    """What is imported stays for good and need not be looked at again; the rest is, when there is much that is new."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def _allow_connections() -> None:
    """As many open files as the system grants: one connection is kept to every target, and 1024 is a common default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system that grants none beyond the default goes on with that
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _end_by_signals(server: uvicorn.Server) -> None:
    """Let SIGINT and SIGTERM be a usual way to end, with code 0.

    uvicorn ends in order at either, and then raises the signal anew for whoever handled it before: nobody, by which
    the process would still end as one that was killed.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def watch_settings(
    config: SidecarConfig, record: LaunchRecord | None, calibrated: Calibration | None = None
) -> WatchSettings:
    """What flags, the launch record and a calibration say about the targets; flags win.

    InputError where the calibration is of something else than what was launched.
    """
    if calibrated and record:
        launched = Speculation(
            method=record.method, model=record.draft, num_speculative_tokens=record.num_speculative_tokens
        )
        calibrated.refuse_another(record.target, launched)
    launched_k = record.num_speculative_tokens if record else None
    return WatchSettings(
        k=config.num_speculative_tokens or launched_k,
        method=record.method if record else None,
        schedule=record.schedule if record else (),
        cost=_cost(config, record),
        curve=CostCurve.of(map(CostPoint.read, calibrated.costs)) if calibrated and calibrated.costs else None,
        accelerators=config.gpus,
        bound=_bound(config, record),
        fingerprints=_fingerprints(config.fingerprints) if config.fingerprints else (),
    )


def _bound(config: SidecarConfig, record: LaunchRecord | None) -> Bound | None:
    """Model and GPUs; None without ``--gpu``. InputError where one of them is not known."""
    if config.gpu is None:
        return None
    name = config.model or (record.target if record else None)
    if name is None:
        raise InputError("--gpu: which model? give --model, or a --launch-record that names its target")
    try:
        model = model_cost.from_configuration(find(name, os.environ))
    except AbsentModel as problem:
        raise InputError(f"--model: {problem}") from None
    return Bound(model, Hardware(gpus.find(config.gpu), config.gpus))


def _fingerprints(path: Path) -> tuple[Fingerprint, ...]:
    """What ``specwatch evaluate-draft`` wrote; InputError, with the place, for anything else."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FINGERPRINTS + 1)
        if len(raw) > LARGEST_FINGERPRINTS:
            raise InputError("larger than a file of fingerprints can be")
        return fingerprint.parse(json.loads(raw))
    except OSError as problem:
        raise InputError(f"--fingerprints {path}: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, RecursionError):
        raise InputError(f"--fingerprints {path}: no JSON") from None
    except InputError as problem:
        raise InputError(f"--fingerprints {path}: {problem}") from None


def _cost(config: SidecarConfig, record: LaunchRecord | None) -> DraftCost:
    if config.draft_cost is not None:
        return given(config.draft_cost)
    ratio = record.draft_cost_ratio if record else None
    return ASSUMED if ratio is None else from_parameter_counts(ratio)


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a taken port is one message instead of a traceback out of the server."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as problem:
        raise SpecwatchError(f"cannot listen on {host}:{port}: {_why(problem)}. Choose with --listen.") from None


def _why(problem: Exception) -> str:
    """The system's own words in place of Python's, which repeat the address; names are resolved to no errno."""
    number = problem.errno or 0 if isinstance(problem, OSError) else 0
    if number == errno.EADDRINUSE:
        return "something listens there already, perhaps another sidecar"
    return os.strerror(number).lower() if number > 0 else "no such host name"


def _url(listener: socket.socket, scheme: str) -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}/" if ":" in host else f"{scheme}://{host}:{port}/"


def _how_many(targets: int, jobs: int) -> str:
    servers = "1 server" if targets == 1 else f"{targets} servers"
    return f"{servers}, and of what {jobs} scrape configurations find" if jobs else servers
