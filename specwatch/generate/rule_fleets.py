"""Fleets on which no alert may fire, and one that must be pooled with care, for promtool's tests of the rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from specwatch.alerting.watchdogs import alert
from specwatch.generate.rule_scenarios import sidecar
from specwatch.generate.rule_traffic import (
    MODEL,
    SERVER,
    Engine,
    K,
    Phase,
    Series,
    Traffic,
    busy,
    gone,
    levels,
    named,
    target,
    up,
)
from specwatch.generate.rules_config import LIMIT, RulesConfig
from specwatch.vllm.metrics import V0_EFFICIENCY

ENGINES = 4
"""Data-parallel engines of a server that has many."""


def healthy(config: RulesConfig, k: int = K) -> Traffic:
    """Traffic half-way between the lowest acceptance that is right and all of it, in a small batch."""
    drafts = busy(config)
    accepted = drafts * k - int(drafts * k * (1 - _low(config)) / 2)
    return Traffic(drafts, accepted, k, running=min(4.0, config.threshold(LIMIT) / 2))


def quiet(config: RulesConfig, steps: int) -> dict[str, list[Series]]:
    """What no alert may fire on, by what it is."""
    good, idle, third = healthy(config), Traffic(), steps // 3
    restarts = [Phase(good, third), Phase(good, steps - third, restarted=True)]
    other_k = [Phase(good, third), Phase(healthy(config, k=3), steps - third, restarted=True)]
    undrafted = Traffic(undrafted_steps=busy(config))
    fleets = {
        "a healthy server that restarts": [Engine(restarts)],
        "a server that falls idle": [Engine([Phase(good, third), Phase(idle, steps - third)])],
        "a server that never served": [Engine([Phase(idle, steps)])],
        "a server of many engines, one of which accepts hardly anything": _one_bad_engine(config, steps),
        "a server of many engines, of which one works": [
            Engine([Phase(good if index == 0 else idle, steps)], engine=str(index)) for index in range(ENGINES)
        ],
        "a server whose K changes": [Engine(other_k)],
        "replicas of other K, alike at the first position": _replicas_of_other_k(config, steps),
        "a server without speculation beside one that speculates": [
            Engine([Phase(undrafted, steps)], speculates=False),
            Engine([Phase(good, steps)], "vllm-b:8000", model="other"),
        ],
    }
    series = {name: _with_up(engines, config, steps) for name, engines in fleets.items()}
    series["a V0 server, whose speculation counters are corrupt"] = _v0(config, steps)
    series["a sidecar that is deployed anew"] = [
        *_sidecars(config, steps),
        *_with_up([Engine(restarts)], config, steps),
    ]
    return series


def _low(config: RulesConfig) -> float:
    return config.threshold(alert("SpeculativeAcceptanceRateLow"))


def _with_up(engines: Sequence[Engine], config: RulesConfig, steps: int) -> list[Series]:
    instances = dict.fromkeys(engine.instance for engine in engines)
    ups = [up(instance, config, (steps, 1)) for instance in instances]
    return [*ups, *(series for engine in engines for series in engine.series(config))]


def _one_bad_engine(config: RulesConfig, steps: int) -> list[Engine]:
    """Pooled, they are right."""
    good, low = healthy(config), _low(config)
    missing = ENGINES * low - (ENGINES - 1) * (1 + low) / 2
    bad = replace(good, accepted=math.ceil(max(missing, 0.0) * good.drafts * K) + 1)
    return [Engine([Phase(bad if index == 0 else good, steps)], engine=str(index)) for index in range(ENGINES)]


def _replicas_of_other_k(config: RulesConfig, steps: int) -> list[Engine]:
    good = healthy(config)
    first = good.positions[0]
    lives = [good, *(replace(Traffic.accepting(good.drafts, [first] * k), running=good.running) for k in (3, 1))]
    return [Engine([Phase(life, steps)], f"vllm-{name}:8000") for life, name in zip(lives, "abc", strict=True)]


def _v0(config: RulesConfig, steps: int) -> list[Series]:
    # Without the label of an engine, which is how promtool reads an empty one, it is V0 that speaks.
    engine = Engine([Phase(Traffic(busy(config), running=healthy(config).running), steps)], engine="")
    k = config.v0_num_speculative_tokens or K
    efficiency = (1 + k * (1 + _low(config)) / 2) / (k + 1)
    own = {"model_name": MODEL, **target(SERVER, config)}
    return [*_with_up([engine], config, steps), named(V0_EFFICIENCY, own, levels([(steps, efficiency)]))]


def _sidecars(config: RulesConfig, steps: int) -> list[Series]:
    half = steps // 2
    old, new = sidecar(config), sidecar(config, "sidecar-b:9108")
    return [
        named("up", old, f"{levels([(half, 1)])} {gone(steps - half)}"),
        named("up", new, f"{gone(half + 1)} {levels([(steps - half - 1, 1)])}"),
        named("specwatch_scrapes_total", {**old, "target": SERVER}, f"0+6x{half} {gone(steps - half)}"),
        named("specwatch_scrapes_total", {**new, "target": SERVER}, f"{gone(half + 1)} 0+6x{steps - half - 1}"),
    ]


def mixed_fleet(config: RulesConfig, steps: int) -> list[Engine]:
    """Servers of one model that must be pooled with care: two engines, two values of K, one without speculation."""
    drafts = busy(config)
    return [
        Engine([Phase(Traffic(2 * drafts, accepted=7 * drafts), steps)]),
        Engine([Phase(Traffic(drafts, accepted=2 * drafts, k=3), steps)], "vllm-b:8000", "0"),
        Engine([Phase(Traffic(drafts, accepted=drafts, k=3, undrafted_steps=drafts), steps)], "vllm-b:8000", "1"),
        Engine([Phase(Traffic(undrafted_steps=drafts), steps)], "vllm-c:8000", speculates=False),
    ]
