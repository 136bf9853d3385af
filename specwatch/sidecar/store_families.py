"""How the database does, as metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.sidecar.store.database import StoreStatus


def families(status: StoreStatus) -> Iterator[Metric]:
    """Whether state is kept, what failed so far, and how much there is; nothing where nothing was asked to be kept."""
    if status.path is None:
        return
    yield GaugeMetricFamily(
        "specwatch_store_up", "1 while what is to be kept reaches the disk, else 0.", value=float(status.up)
    )
    yield CounterMetricFamily("specwatch_store_errors", "Reads and writes that the disk refused.", value=status.errors)
    yield GaugeMetricFamily("specwatch_store_size_bytes", "Size of the database.", value=float(status.bytes))
