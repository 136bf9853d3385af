"""Readings of the drift detector, as a diagnosis gets them."""

from __future__ import annotations

from specwatch.signals.drift import DriftReading


def alarmed(reference: float, since: float) -> DriftReading:
    """Acceptance has left its normal."""
    return DriftReading(score=1.2, reference=reference, since=since, learned=1.0)


def calm(reference: float) -> DriftReading:
    """Acceptance is as ever."""
    return DriftReading(score=0.1, reference=reference, since=None, learned=1.0)
