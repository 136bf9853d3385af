"""The configurations of Leviathan et al. 2023, appendix A.3, as servers: low acceptance rates that pay."""

from __future__ import annotations

from collections.abc import Mapping

from specwatch.alerting.catalogue import Alert
from specwatch.alerting.watchdogs import alert
from specwatch.generate.rule_scenarios import Firing, of_server
from specwatch.generate.rule_traffic import Engine, Phase, Traffic
from specwatch.generate.rules_config import LIMIT, RulesConfig
from specwatch.signals.speedup import given, last_position_worth

PUBLISHED = (
    ("EnDe small, temperature 0", 0.75, 7, 0.02),
    ("EnDe base, temperature 0", 0.80, 7, 0.04),
    ("EnDe large, temperature 0", 0.82, 7, 0.11),
    ("EnDe small, temperature 1", 0.62, 7, 0.02),
    ("EnDe base, temperature 1", 0.68, 5, 0.04),
    ("EnDe large, temperature 1", 0.71, 3, 0.11),
    ("CNNDM small, temperature 0", 0.65, 5, 0.02),
    ("CNNDM base, temperature 0", 0.73, 5, 0.04),
    ("CNNDM large, temperature 0", 0.74, 3, 0.11),
    ("CNNDM small, temperature 1", 0.53, 5, 0.02),
    ("CNNDM base, temperature 1", 0.55, 3, 0.04),
    ("CNNDM large, temperature 1", 0.56, 3, 0.11),
)
"""Task and draft, α, K, draft cost. Measured: 1.4 to 3.4 times faster, at acceptance rates from 0.216 to 0.564."""

DRAFTS = 1_000_000
"""In a step, so that rounding to whole tokens does not show."""


def traffic(alpha: float, k: int, running: float) -> Traffic:
    """Each token is accepted with probability α where all before it were."""
    by_position = [round(DRAFTS * alpha ** (position + 1)) for position in range(k)]
    return Traffic(DRAFTS, sum(by_position), k, running=running, by_position=tuple(by_position))


def published(config: RulesConfig, steps: int) -> tuple[list[Engine], Mapping[str, list[Firing]]]:
    """A server and model for each, and which alerts fire on them, by name.

    Low acceptance does, as it must below its threshold. What costs more than it brings is asked at the draft cost that
    was chosen, not at each one's own.
    """
    engines = []
    firings: dict[str, list[Firing]] = {}
    running = min(4.0, config.threshold(LIMIT) / 2)
    for number, (name, alpha, k, _) in enumerate(PUBLISHED):
        doing = traffic(alpha, k, running)
        engine = Engine([Phase(doing, steps)], f"published-{number}:8000", model=name)
        engines.append(engine)
        for entry, value in _values(doing, config).items():
            if entry.comparison.holds(value, config.threshold(entry)):
                firings.setdefault(entry.name, []).append(_firing(engine, value, config))
    return engines, firings


def _values(doing: Traffic, config: RulesConfig) -> Mapping[Alert, float]:
    length = 1 + doing.accepted / doing.drafts
    rates = [accepted / doing.drafts for accepted in doing.positions]
    worth = last_position_worth(rates, float(doing.k), given(config.draft_cost))
    return {
        alert("SpeculativeAcceptanceRateLow"): (length - 1) / doing.k,
        alert("SpeculationSlowerThanNone"): length / (1 + doing.k * config.draft_cost),
        **({} if worth is None else {alert("SpeculationLastPositionsWasted"): worth}),
    }


def _firing(engine: Engine, value: float, config: RulesConfig) -> Firing:
    return Firing(
        series=[],
        begins=1,
        labels=of_server(config, engine.instance, engine.model),
        value=value,
        fields={"target": engine.instance, "model": engine.model},
    )
