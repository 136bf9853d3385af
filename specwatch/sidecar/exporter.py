"""The sidecar's own ``/metrics``: every signal of the catalogue for every target and window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from specwatch import __version__
from specwatch.alerting.catalogue import STATES
from specwatch.sidecar import (
    alert_families,
    diagnosis_families,
    drift_families,
    launched,
    scrape_families,
    worth_families,
)
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.pauses import Pauses
from specwatch.sidecar.service import Service
from specwatch.sidecar.views import TargetView
from specwatch.signals.catalogue import Signal, signals
from specwatch.signals.formula import PerPosition

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

START_WINDOW = "start"
"""Label of values that cover the server's whole life, the only ones that the V0 engine can tell."""

_LABELS = ("target", "model_name")


def render(service: Service, alerts: AlertBook) -> bytes:
    """The page in Prometheus' text format. No value: no sample, never 0."""
    return _text(list(_families(service, alerts, service.views())))


async def gather(service: Service, alerts: AlertBook) -> bytes:
    """The same, in small steps: for a thousand servers it takes seconds, and scrapes are due meanwhile."""
    # Not in a thread: whenever a scrape lets go of the interpreter, which it does for every packet, it would wait its
    # turn behind that thread, and a hundred scrapes together for seconds.
    parts, pauses = [], Pauses()
    for family in _families(service, alerts, await service.gather_views()):
        parts.append(_text([family]))
        await pauses.after_a_step()
    return b"".join(parts)


class _Gathered(Collector):
    """What is written by ``generate_latest``, which takes a registry of collectors."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Sequence[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Gathered(families))
    return generate_latest(registry)


def _families(service: Service, alerts: AlertBook, views: Sequence[TargetView]) -> Iterator[Metric]:
    """All, in the catalogue's order."""
    for signal in signals():
        yield _signal_family(signal, views)
    yield from _state_families(views)
    yield from drift_families.families(views, service.pools)
    yield from worth_families.families(views, service.cells)
    yield from diagnosis_families.families(views)
    yield from scrape_families.families(service)
    yield from alert_families.families(alerts.view(), len(alerts.silences()))
    if service.losslessness:
        from specwatch.sidecar import losslessness

        yield from losslessness.families(service.losslessness)
    if service.launched:
        yield from launched.families(service.launched.record())
    build = GaugeMetricFamily("specwatch_build_info", "Version of specwatch, value 1.", labels=["version"])
    build.add_metric([__version__], 1.0)
    yield build


def _labels(view: TargetView) -> list[str]:
    return [view.target.name, view.model_name or ""]


def _signal_family(signal: Signal, views: Iterable[TargetView]) -> Metric:
    by_position = isinstance(signal.formula, PerPosition)
    extra = ("window", "position") if by_position else ("window",)
    family = GaugeMetricFamily(signal.metric, signal.help, labels=[*_LABELS, *extra])
    for view in views:
        for window, told in view.windows.items():
            value = told.values[signal.name]
            entries = enumerate(value) if isinstance(value, tuple) else [(None, value)]
            for position, number in entries:
                if number is not None:
                    where = [window] if position is None else [window, str(position)]
                    family.add_metric([*_labels(view), *where], number)
        if signal.name in view.since_start:
            family.add_metric([*_labels(view), START_WINDOW], view.since_start[signal.name])
    return family


def _state_families(views: Iterable[TargetView]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"specwatch_{name}", help_text, labels=_LABELS) for name, help_text in STATES.items()
    }
    cost = GaugeMetricFamily(
        "specwatch_draft_cost_ratio",
        "Cost of a draft token ÷ a plain target step that the estimated speedup assumes; also its break-even rate.",
        labels=_LABELS,
    )
    k = GaugeMetricFamily("specwatch_configured_draft_tokens", "K as configured, where it shows.", labels=_LABELS)
    for view in views:
        for name, value in view.states().items():
            if value is not None:
                families[name].add_metric(_labels(view), value)
        if view.k is not None:
            k.add_metric(_labels(view), float(view.k))
        cost.add_metric(_labels(view), view.cost.c)
    yield from families.values()
    yield from (cost, k)
