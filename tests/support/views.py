"""Servers as the sidecar would show them, made by hand: for what judges, words and draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from specwatch.collect.targets import Target
from specwatch.sidecar.views import TargetView, WindowView
from specwatch.sidecar.watch import TargetWatch
from specwatch.signals.drift import DriftReading
from specwatch.signals.findings import Finding, Level
from specwatch.signals.speedup import Speedup, SpeedupKind
from specwatch.vllm.metrics import Dialect

NOW = 1_800_000_000.0
"""Unix seconds of the moment that is shown."""

FITS = Finding("healthy", Level.OK, "Speculation fits this traffic.")
CHANGED = Finding("traffic-changed", Level.PROBLEM, "Traffic changed domain.", remedy="Retrain the draft.")


def shown(
    name: str = "gpu-1",
    *,
    speedup: float | None = 2.0,
    known: SpeedupKind = SpeedupKind.ESTIMATED,
    seconds: float | None = 300.0,
    drifted_since: float | None = None,
    finding: Finding = FITS,
    signals: dict[str, Any] | None = None,
    **changes: Any,
) -> TargetView:
    """A server that pays, of which the test says what else it is."""
    new = TargetWatch(Target(name, "http://127.0.0.1:8000/metrics")).view(NOW)
    known_speedup = Speedup(speedup, speedup - 0.1, speedup + 0.1, known, "a twin") if speedup is not None else None
    values = {
        **new.headline.values,
        "acceptance_rate": None if speedup is None else 0.8125,
        "estimated_speedup": speedup,
        "running_requests": 4.0,
        "generation_throughput": 250.0,
        **(signals or {}),
    }
    view = replace(
        new,
        up=True,
        last_scrape=NOW - 2,
        dialect=Dialect.V1,
        release="0.32.0",
        model_name="meta-llama/Llama-3.1-70B-Instruct",
        k=5,
        windows={label: WindowView(seconds, values) for label in new.windows},
        speedups=(known_speedup,) if known_speedup and known is not SpeedupKind.ESTIMATED else (),
        findings=(finding,),
    )
    if drifted_since is not None:
        drift = DriftReading(
            1.5, 0.86, drifted_since, 1.0, direction="fell", change=-0.2, change_low=-0.25, change_high=-0.15
        )
        view = replace(view, drift=drift)
    return replace(view, **changes)


def away(name: str = "gpu-1") -> TargetView:
    """A server whose last scrape failed."""
    finding = Finding("unreachable", Level.PROBLEM, "The last scrape failed: no connection: connection refused.")
    return shown(name, speedup=None, finding=finding, up=False, error="no connection: connection refused")


def silent(name: str = "gpu-1") -> TargetView:
    """A server of which whoever scrapes it tells nothing any more."""
    finding = Finding("no-news", Level.NOTICE, "Nothing is known of it now: HTTP 503.")
    return shown(name, speedup=None, finding=finding, up=None, error="HTTP 503")
