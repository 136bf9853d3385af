"""Putting the sidecar together from its configuration, and serving it."""

from __future__ import annotations

import socket

import uvicorn

from specwatch.alerting.notification import Places
from specwatch.alerting.receivers import receivers
from specwatch.collect.scraper import Limits
from specwatch.collect.targets import parse_all
from specwatch.config import SidecarConfig
from specwatch.errors import SpecwatchError
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.service import Service, ServiceSettings
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals.speedup import ASSUMED, DraftCost, from_parameter_counts, given
from specwatch.vllm.launch_record import LaunchRecord, read

DRAIN_SECONDS = 15
"""Longest a stop waits for answers under way and messages still to deliver."""


def run(config: SidecarConfig, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM; raises InputError or SpecwatchError before anything is served."""
    targets = parse_all(config.target)
    record = read(config.launch_record) if config.launch_record else None
    settings = watch_settings(config, record).in_scaled_time(config.time_scale)
    alerts = AlertBook(
        receivers(config.slack_webhook_file, config.pagerduty_routing_key_file, config.pagerduty_url),
        Places(page=config.public_url, runbooks=config.runbooks_url),
        time_scale=config.time_scale,
    )
    service = Service(
        targets,
        watch={target.name: settings for target in targets},
        settings=ServiceSettings(interval=config.interval, limits=Limits(seconds=config.timeout)),
        listener=alerts.judge,
    )
    listener = _listen(host, port)
    app = create_app(service, alerts, local_only=not config.insecure)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS)
    )
    with listener:
        server.run(sockets=[listener])


def watch_settings(config: SidecarConfig, record: LaunchRecord | None) -> WatchSettings:
    """What flags and the launch record say about the targets; flags win."""
    launched_k = record.num_speculative_tokens if record else None
    return WatchSettings(
        k=config.num_speculative_tokens or launched_k,
        method=record.method if record else None,
        cost=_cost(config, record),
    )


def _cost(config: SidecarConfig, record: LaunchRecord | None) -> DraftCost:
    if config.draft_cost is not None:
        return given(config.draft_cost)
    ratio = record.draft_cost_ratio if record else None
    return ASSUMED if ratio is None else from_parameter_counts(ratio)


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a taken port is one message instead of a traceback out of the server."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as problem:
        raise SpecwatchError(
            f"cannot listen on {host}:{port}: {problem.strerror}. Is another sidecar running? Choose with --listen."
        ) from None
