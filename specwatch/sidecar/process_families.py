"""Metrics of the sidecar as a process: CPU, memory, files, lag of its loop, refused requests, database, reloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from specwatch.sidecar import store_families
from specwatch.sidecar.guard import REASONS
from specwatch.sidecar.loop_lag import LoopLag
from specwatch.sidecar.reload import Reloader
from specwatch.sidecar.store.database import Database


class ProcessFamilies(Collector):
    """Under the names that every exporter has (``process_…``), and ours."""

    def __init__(
        self, lag: LoopLag, refused: Counter[str], database: Database, reloader: Reloader | None = None
    ) -> None:
        self._lag = lag
        self._refused = refused
        self._database = database
        self._reloader = reloader
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(ProcessCollector(registry=None))
        self._registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Our own."""
        yield self._lag.family()
        refused = CounterMetricFamily("specwatch_refused_requests", "Requests refused by why.", labels=["reason"])
        for reason in REASONS:
            refused.add_metric([reason], self._refused[reason])
        yield refused
        yield from store_families.families(self._database.status)
        if self._reloader:
            yield from self._reloader.families()

    def render(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)
