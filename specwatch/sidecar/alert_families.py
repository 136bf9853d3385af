"""Alerts and their messages as metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.alerting.delivery import Health
from specwatch.alerting.evaluation import State
from specwatch.sidecar.alerts import AlertsView


def families(view: AlertsView, silences: int) -> Iterator[Metric]:
    """What is pending and firing, the silences in force, and how each receiver does."""
    state = GaugeMetricFamily(
        "specwatch_alert_active",
        "1 for every alert that is pending or firing.",
        labels=["alertname", "target", "state"],
    )
    for alert in view.alerts:
        if alert.state != State.RESOLVED.value:
            state.add_metric([alert.name, alert.target, alert.state], 1.0)
    yield state
    yield GaugeMetricFamily("specwatch_silences", "Silences in force.", value=silences)
    yield from _receiver_families(view)


def _receiver_families(view: AlertsView) -> Iterator[Metric]:
    messages = CounterMetricFamily(
        "specwatch_notifications", "Messages to a receiver by what became of them.", labels=["receiver", "outcome"]
    )
    waiting = GaugeMetricFamily("specwatch_notifications_waiting", "Messages not yet delivered.", labels=["receiver"])
    health = GaugeMetricFamily(
        "specwatch_receiver_health",
        "0 while a receiver takes messages, 1 while one is being tried again, 2 while they are given up.",
        labels=["receiver"],
    )
    success = GaugeMetricFamily(
        "specwatch_receiver_last_success_timestamp_seconds",
        "When a receiver last took a message, in Unix time.",
        labels=["receiver"],
    )
    for entry in view.deliveries:
        for outcome, count in (("sent", entry.sent), ("failed", entry.failed), ("dropped", entry.dropped)):
            messages.add_metric([entry.receiver, outcome], count)
        waiting.add_metric([entry.receiver], entry.waiting)
        health.add_metric([entry.receiver], Health[entry.health.upper()])
        if entry.last_success is not None:
            success.add_metric([entry.receiver], entry.last_success)
    yield from (messages, waiting, health, success)
