"""Findings and the requests' own drift, as metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from specwatch.sidecar.views import TargetView


def families(views: Sequence[TargetView]) -> Iterator[Metric]:
    """What was found at every target, and how far its requests are from those of the reference."""
    found = GaugeMetricFamily(
        "specwatch_diagnosis", "1 for every finding of a target.", labels=["target", "model_name", "code", "level"]
    )
    shifts = GaugeMetricFamily(
        "specwatch_workload_shift_ratio",
        "Population stability index of a property of the requests; from 0.25 on it is another population.",
        labels=["target", "model_name", "feature"],
    )
    for view in views:
        labels = [view.target.name, view.model_name or ""]
        for code, level in dict.fromkeys((finding.code, finding.level.value) for finding in view.findings):
            found.add_metric([*labels, code, level], 1.0)
        for shift in view.workload.shifts:
            shifts.add_metric([*labels, shift.feature.value], shift.psi)
    yield from (found, shifts)
