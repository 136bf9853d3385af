"""What drift knows, as metrics: of every target, every model and the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from specwatch.sidecar.pools import Pools
from specwatch.sidecar.views import TargetView
from specwatch.signals.drift import DriftReading

Told = tuple[str, Callable[[DriftReading], float | None]]

OF_A_TARGET: Mapping[str, Told] = {
    "specwatch_drift_rise_score": (
        "How far acceptance has risen above its own normal; 1 is as sure as an alarm, and none is raised.",
        lambda drift: drift.rise_score,
    ),
    "specwatch_drift_reference_ratio": (
        "The acceptance rate that drift takes as normal.",
        lambda drift: drift.reference,
    ),
    "specwatch_drift_learned_ratio": ("Share of the normal that is learned.", lambda drift: drift.learned),
    "specwatch_drift_change_ratio": (
        "Acceptance since the change began minus the normal; below 0 it fell.",
        lambda drift: drift.change,
    ),
    "specwatch_drift_change_low_ratio": ("Lower end of the change's 95 % interval.", lambda drift: drift.change_low),
    "specwatch_drift_change_high_ratio": ("Upper end of the change's 95 % interval.", lambda drift: drift.change_high),
    "specwatch_drift_since_timestamp_seconds": ("When the change under way began.", lambda drift: drift.since),
    "specwatch_drift_regime_since_timestamp_seconds": (
        "When K, method and release became what they are.",
        lambda drift: drift.regime_since,
    ),
}
"""The score itself is among the alert catalogue's states."""


def families(views: Iterable[TargetView], pools: Pools) -> Iterator[Metric]:
    """One family for each thing told; no sample where it is not known."""
    labels = ("target", "model_name")
    told = list(views)
    for name, (help_text, of) in OF_A_TARGET.items():
        readings = (((view.target.name, view.model_name or ""), of(view.drift)) for view in told)
        yield _family(name, help_text, labels, readings)
    models = (((model,), reading.score) for model, reading in pools.readings().items())
    yield _family("specwatch_model_drift_score", "Drift of all servers of a model together.", ("model_name",), models)
    fleet = [((), pools.fleet.detector.reading().score)]
    yield _family("specwatch_fleet_drift_score", "Drift of all servers together.", (), fleet)


def _family(
    name: str, help_text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float | None]]
) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for where, value in values:
        if value is not None:
            family.add_metric(where, value)
    return family
