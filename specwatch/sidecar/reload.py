"""Taking up a changed configuration while serving: what is watched, and how often. The rest is named, and waits."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

from specwatch.collect import prometheus_query
from specwatch.collect.discovery import Discovery, Wanted
from specwatch.collect.http import Limits
from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.sidecar.service import Service, ServiceSettings

log = logging.getLogger(__name__)

RELOADED = ("target", "scrape_configs", "shard", "interval", "timeout")
"""Keys that are taken up at once. All others are used once, at the start: addresses, files of state, receivers."""

ASKED_SECONDS = 15.0
"""Between questions to a Prometheus, and for an answer, unless told otherwise: how often many scrape. Asked more often,
it would have the work and say the same again."""


@dataclass(frozen=True)
class Reloaded:
    """What came of reading the configuration again."""

    at: float
    """Unix seconds."""
    changed: list[str]
    """Keys that were taken up."""
    needs_restart: list[str]
    """Keys that differ from those at the start, and will be used after the next."""


class Reloader:
    """Reads the configuration again when it is asked to; one that cannot be used changes nothing."""

    def __init__(
        self, config: SidecarConfig, reread: Callable[[], SidecarConfig], service: Service, discovery: Discovery
    ) -> None:
        self._began_with = self._config = config
        self._reread = reread
        self._service = service
        self._discovery = discovery
        self._worked = True
        self._last = service.clock.now()

    def reload(self) -> Reloaded:
        """Take up what the file now says; InputError, and the log, say why not."""
        try:
            config = self._reread()
            self._refuse_another_kind(config)
            self._discovery.configure(Wanted.of(config))
        except InputError as problem:
            self._worked = False
            log.error("the configuration is not reloaded, and what was before stands: %s", problem)
            raise
        self._service.settings = service_settings(config)
        changed = [key for key in RELOADED if getattr(config, key) != getattr(self._config, key)]
        waiting = [key for key in _others() if getattr(config, key) != getattr(self._began_with, key)]
        self._config, self._worked, self._last = config, True, self._service.clock.now()
        log.info(
            "the configuration is reloaded: changed: %s; needs a restart: %s",
            ", ".join(changed) or "nothing",
            ", ".join(waiting) or "nothing",
        )
        return Reloaded(self._last, changed, waiting)

    def _refuse_another_kind(self, config: SidecarConfig) -> None:
        """InputError where what scrapes is to scrape no more, or the other way round, and for what cannot be used."""
        prometheus_query.from_config(config)
        if (config.from_prometheus is None) != (self._began_with.from_prometheus is None):
            raise InputError("from_prometheus: whether servers are scraped is changed by a restart alone")

    @contextmanager
    def on_hangup(self) -> Iterator[None]:
        """While this is open, SIGHUP reloads; to be opened in the main thread's event loop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload_or_not)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    def _reload_or_not(self) -> None:
        try:
            self.reload()
        except InputError:
            return  # It is logged, and who sent the signal hears no answer.

    def families(self) -> Iterator[Metric]:
        """Under the names that Prometheus has for itself."""
        worked = GaugeMetricFamily(
            "specwatch_config_last_reload_successful", "1 unless the configuration that was last read cannot be used."
        )
        worked.add_metric([], float(self._worked))
        last = GaugeMetricFamily(
            "specwatch_config_last_reload_success_timestamp_seconds", "When a configuration was last taken up."
        )
        last.add_metric([], self._last)
        yield from (worked, last)


def service_settings(config: SidecarConfig) -> ServiceSettings:
    """How often and how patiently targets are scraped, or a Prometheus is asked."""
    if config.from_prometheus is None:
        return ServiceSettings(interval=config.interval, limits=Limits(seconds=config.timeout))
    given = config.model_fields_set
    return ServiceSettings(
        interval=config.interval if "interval" in given else ASKED_SECONDS,
        limits=Limits(config.timeout if "timeout" in given else ASKED_SECONDS, prometheus_query.ANSWER_BYTES),
    )


def _others() -> list[str]:
    return [key for key in SidecarConfig.model_fields if key not in RELOADED]
