"""The catalogue's formulas straight over vLLM's counters: what dashboards ask, with no recording rules needed."""

from __future__ import annotations

from dataclasses import dataclass

from specwatch.generate.promql import (
    EXPORTED_TOGETHER,
    POSITION,
    V1_ONLY,
    Level,
    at_each_position,
    number,
    quotient,
    sum_by,
    weighted,
    witnesses,
)
from specwatch.signals.catalogue import Signal
from specwatch.signals.formula import Computed, PerPosition, Ratio, Terms
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, SPECULATION, Counter

SERVER = Level.INSTANCE.labels
"""Labels that tell servers apart; summing by them pools a server's engines."""

FLEET: tuple[str, ...] = ()
"""No labels: everything that is selected, pooled."""


@dataclass(frozen=True)
class Live:
    """Expressions over the series that ``selector`` matches.

    ``window`` is a PromQL duration or one of Grafana's variables.
    """

    selector: str
    window: str
    offset: str = ""
    """Such as `` offset 1d``: how it was then."""

    def signal(self, signal: Signal, labels: tuple[str, ...] = SERVER) -> str:
        """The signal, pooled over what shares these labels (and by position, where it has positions).

        ValueError for one that Python alone tells.
        """
        if isinstance(signal.formula, Computed) or not signal.in_promql:
            raise ValueError(f"{signal.name} has no PromQL: the sidecar alone tells it")
        if isinstance(signal.formula, PerPosition):
            return self._per_position(signal.formula, labels)
        return self._ratio(signal.formula, labels)

    def rate(self, counter: Counter, function: str = "rate") -> str:
        """One counter's rate, one series an engine, whatever name the release gives it; a gauge's mean."""
        if counter in GAUGES:
            return f"avg_over_time({self.over_window(GAUGES[counter])})"
        matchers = (V1_ONLY,) if counter in SPECULATION else ()
        names = [f"{function}({self.over_window(name, *matchers)})" for name in SERIES[counter]]
        return names[0] if len(names) == 1 else f"({' or '.join(names)})"

    def series(self, name: str, *matchers: str) -> str:
        """Selector of a metric's series."""
        return f"{name}{{{', '.join([self.selector, *matchers])}}}"

    def over_window(self, name: str, *matchers: str) -> str:
        """A metric's samples over the window."""
        return f"{self.series(name, *matchers)}[{self.window}]{self.offset}"

    def _ratio(self, formula: Ratio, labels: tuple[str, ...]) -> str:
        needed = {*formula.numerator, *formula.denominator, *formula.at_least}
        # All engines of one server export the same; only pooling several servers must leave some out.
        alike = set(SERVER) <= set(labels) or any(needed <= together for together in EXPORTED_TOGETHER)

        def pooled(terms: Terms, function: str = "rate") -> str:
            others = [] if alike else [self.rate(counter) for counter in witnesses(terms, needed)]
            expression = weighted(terms, lambda counter: self.rate(counter, function))
            return sum_by(labels, "\nand\n".join([expression, *others]))

        def enough(counter: Counter, least: float) -> str:
            return f"{pooled({counter: 1.0}, 'increase')} >= {number(least)}"

        return quotient(formula, pooled, enough)

    def _per_position(self, formula: PerPosition, labels: tuple[str, ...]) -> str:
        by = (*labels, POSITION)
        accepted = f"rate({self.over_window(POSITION_SERIES, V1_ONLY)})"

        def drafts(function: str) -> str:
            return sum_by(by, at_each_position(accepted, self.rate(Counter.DRAFTS, function)))

        enough = f"{drafts('increase')} >= {number(formula.at_least)}"
        return f"{sum_by(by, accepted)}\n/\n{drafts('rate')}\nand\n{enough}"
