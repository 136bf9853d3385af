"""What ``specwatch launch`` says of the server it started: read again when it is asked for, for restarts rewrite it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.errors import SpecwatchError
from specwatch.vllm.launch_record import LaunchRecord, read


class Launched:
    """A launch record on disk; what was read last stands while the file cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._record = read(path)

    def record(self) -> LaunchRecord:
        """The record as it is now."""
        try:
            self._record = read(self._path)
        except SpecwatchError:
            # The launcher has ended, or is just rewriting it.
            return self._record
        return self._record


def families(record: LaunchRecord) -> Iterator[Metric]:
    """The record as metrics: method and K, which vLLM's own metrics do not name, and how often vLLM was restarted."""
    labels = {
        "release": record.release,
        "method": record.method or "none",
        "num_speculative_tokens": "" if record.num_speculative_tokens is None else str(record.num_speculative_tokens),
        "draft": record.draft or "",
        "served": record.target or "",
    }
    info = GaugeMetricFamily("specwatch_launch_info", "What was launched, value 1.", labels=list(labels))
    info.add_metric(list(labels.values()), 1.0)
    restarts = CounterMetricFamily("specwatch_launch_restarts", "Starts of vLLM after a failure.")
    restarts.add_metric([], float(record.restarts))
    yield from (info, restarts)
