"""Metrics about scraping: how often, how long, how late, why not, and what was found and left out."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from specwatch.collect.discovery import Discovery, Drop
from specwatch.collect.http import Cause
from specwatch.sidecar.service import Service


def families(service: Service) -> Iterator[Metric]:
    """By target; and by source where there are any."""
    scrapes = CounterMetricFamily("specwatch_scrapes", "Scrapes tried.", labels=["target"])
    failures = CounterMetricFamily("specwatch_scrape_failures", "Scrapes that gave no page.", labels=["target"])
    reasons = CounterMetricFamily(
        "specwatch_scrape_failures_by_reason", "Scrapes of any target that gave no page, by why.", labels=["reason"]
    )
    seconds = CounterMetricFamily("specwatch_scrape_seconds", "Time spent on scrapes.", labels=["target"])
    lag = GaugeMetricFamily(
        "specwatch_scrape_lag_seconds", "By how much the last scrape began later than planned.", labels=["target"]
    )
    missed = CounterMetricFamily(
        "specwatch_scrape_missed_turns", "Scrapes left out, because the one before took too long.", labels=["target"]
    )
    for name, tally in service.tallies.items():
        scrapes.add_metric([name], tally.scrapes)
        failures.add_metric([name], tally.failures)
        seconds.add_metric([name], tally.seconds)
        lag.add_metric([name], tally.lag)
        missed.add_metric([name], tally.missed)
    for cause in Cause:
        reasons.add_metric([cause.value], service.causes[cause])
    yield from (scrapes, failures, reasons, seconds, lag, missed)
    if service.reader:
        yield from service.reader.families(service.clock.now())
    if service.discovery:
        yield from _found(service.discovery)


def _found(discovery: Discovery) -> Iterator[Metric]:
    dropped = GaugeMetricFamily(
        "specwatch_targets_dropped", "Addresses that were found and are not watched, by why.", labels=["reason"]
    )
    for drop in Drop:
        dropped.add_metric([drop.value], discovery.dropped[drop])
    labels = ["job", "source"]
    found = GaugeMetricFamily("specwatch_discovery_targets", "Addresses that sources last told.", labels=labels)
    failing = GaugeMetricFamily("specwatch_discovery_failing", "Sources that cannot be read now.", labels=labels)
    totals: dict[tuple[str, str], tuple[int, int]] = {}
    for source in discovery.sources:
        where = source.config.job_name, source.kind
        addresses, failed = totals.get(where, (0, 0))
        totals[where] = addresses + source.found, failed + (source.error is not None)
    for where, (addresses, failed) in totals.items():
        found.add_metric(list(where), addresses)
        failing.add_metric(list(where), failed)
    yield from (dropped, found, failing)
