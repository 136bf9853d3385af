"""``/api/v1/thresholds``: what the sidecar's own alerts hold each signal against, for lines in charts."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter

from specwatch.alerting.catalogue import ALERTS


@dataclass(frozen=True)
class Threshold:
    """One alert's limit."""

    alert: str
    signal: str
    """A signal of the catalogue, or a state such as ``drift_score`` that only the sidecar has."""
    comparison: str
    """How the signal stands to the threshold while the alert holds."""
    threshold: float
    for_seconds: float
    """How long that must last until it fires."""
    severity: str


def router() -> APIRouter:
    """Reading the limits."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/thresholds")
    async def read_thresholds() -> list[Threshold]:
        """The limit of every alert, and how long it must be passed."""
        return [
            Threshold(a.name, a.signal, a.comparison.value, a.threshold, a.for_seconds, a.severity.value)
            for a in ALERTS
        ]

    return routes
