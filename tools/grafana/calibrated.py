"""The calibration that ``specwatch calibrate`` would measure on the simulated servers, whose costs are known."""

from __future__ import annotations

from collections.abc import Iterator

from specwatch.lab.scenario import Domain
from specwatch.lab.simulated_engine import StepCost
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.vllm.calibration import CalibratedCell

DRAFTED = (1, 2, 3, 4, 5, 7)
"""K."""
CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
"""Requests at once."""

COST = StepCost()


def curve() -> CostCurve:
    """What steps cost by K and concurrency."""
    return CostCurve.of(
        CostPoint(k, concurrency, COST.step_seconds(concurrency, k), COST.step_seconds(concurrency, 0))
        for k in DRAFTED
        for concurrency in CONCURRENCY
    )


def cells(domains: tuple[Domain, ...]) -> Iterator[CalibratedCell]:
    """The speedup of each kind of traffic, by K and concurrency."""
    for domain in domains:
        for k in DRAFTED:
            length = 1 + sum(domain.at(0) ** position for position in range(1, k + 1))
            for concurrency in CONCURRENCY:
                yield CalibratedCell(domain.name, k, concurrency, COST.speedup(length, concurrency, k))
