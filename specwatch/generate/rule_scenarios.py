"""Traffic for promtool's tests of the rules: series as vLLM's V1 engine and Prometheus would show them.

Time runs in steps of one evaluation of the rules, at which every series has a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from specwatch.alerting.catalogue import Alert, alert
from specwatch.generate.promql import quoted
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.metrics import GAUGES, MAX_POSITIONS, POSITION_SERIES, SERIES, SPECULATION, Counter

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
SERVER = "vllm-a:8000"
SIDECAR = "sidecar:9108"
K = 5

Series = dict[str, str]
"""One input series of promtool: its name with labels, and its values in promtool's notation."""


@dataclass(frozen=True)
class Traffic:
    """What one engine does in one step."""

    drafts: int = 0
    accepted: int = 0
    k: int = K
    undrafted_steps: int = 0

    @property
    def counts(self) -> dict[Counter, float]:
        """Increments of a step. Seconds are multiples of a quarter, which floats hold exactly."""
        steps = self.drafts + self.undrafted_steps
        requests = min(steps, 4)
        generated = steps + self.accepted + requests
        return {
            Counter.DRAFTS: self.drafts,
            Counter.DRAFT_TOKENS: self.drafts * self.k,
            Counter.ACCEPTED_TOKENS: self.accepted,
            Counter.GENERATION_TOKENS: generated,
            Counter.FIRST_TOKENS: requests,
            Counter.DECODE_STEPS: steps,
            Counter.DECODE_STEP_SECONDS: steps * 0.25,
            Counter.FINISHED_REQUESTS: requests,
            Counter.FINISHED_TOKENS: generated,
            Counter.FINISHED_DECODE_SECONDS: steps * 0.25,
        }

    @property
    def positions(self) -> list[int]:
        """Accepted tokens by position, as even as their sum allows."""
        whole, rest = divmod(self.accepted, self.k)
        return [whole + (position < rest) for position in range(self.k)]

    @property
    def gauges(self) -> dict[Counter, float]:
        """Requests in the batch and in the queue."""
        return {Counter.RUNNING_SECONDS: min(self.drafts + self.undrafted_steps, 4), Counter.WAITING_SECONDS: 0}


@dataclass(frozen=True)
class Phase:
    """Steady traffic for some steps; after a restart, all counters begin at 0."""

    traffic: Traffic
    steps: int
    restarted: bool = False


@dataclass(frozen=True)
class Engine:
    """One engine of one server over time."""

    phases: Sequence[Phase]
    instance: str = SERVER
    engine: str = "0"
    speculates: bool = True

    def series(self, config: RulesConfig) -> Iterator[Series]:
        """Every series of the engine."""
        own = {"engine": self.engine, "model_name": MODEL, **target(self.instance, config)}
        for counter, names in SERIES.items():
            if self.speculates or counter not in SPECULATION:
                yield named(names[0], own, values([(p, p.traffic.counts[counter]) for p in self.phases]))
        for position in range(self.phases[0].traffic.k if self.speculates else 0):
            by_position = values([(p, p.traffic.positions[position]) for p in self.phases])
            yield named(POSITION_SERIES, {**own, "position": str(position)}, by_position)
        for counter, name in GAUGES.items():
            yield named(name, own, levels([(p.steps, p.traffic.gauges[counter]) for p in self.phases]))


@dataclass(frozen=True)
class Firing:
    """What makes an alert fire: the series, the step at which its condition begins to hold, and what it then says."""

    series: list[Series]
    begins: int
    labels: Mapping[str, str]
    value: float = 0.0
    fields: Mapping[str, str] = field(default_factory=dict)
    """What stands in its texts for the target and the model."""


def target(instance: str, config: RulesConfig) -> dict[str, str]:
    """Labels that Prometheus gives to a vLLM target."""
    return {"instance": instance, "job": config.vllm_job, **config.target_labels}


def named(name: str, labels: Mapping[str, str], text: str) -> Series:
    """One input series."""
    matchers = ", ".join(f"{key}={quoted(value)}" for key, value in sorted(labels.items()))
    return {"series": f"{name}{{{matchers}}}", "values": text}


def values(phases: Sequence[tuple[Phase, float]]) -> str:
    """A counter's values: 0 at first, then one increment a step."""
    parts, now = [], 0.0
    for number, (phase, step) in enumerate(phases):
        start = 0.0 if phase.restarted or number == 0 else now + step
        steps = phase.steps if number == 0 else phase.steps - 1
        parts.append(f"{start:g}+{step:g}x{steps}")
        now = start + step * steps
    return " ".join(parts)


def levels(phases: Sequence[tuple[int, float]]) -> str:
    """A gauge's values; the first phase has the sample at 0 as well."""
    return " ".join(f"{level:g}+0x{steps - (number > 0)}" for number, (steps, level) in enumerate(phases))


def up(instance: str, config: RulesConfig, *phases: tuple[int, float]) -> Series:
    """Prometheus' own word on a vLLM target."""
    return named("up", target(instance, config), levels(phases))


def busy(config: RulesConfig) -> int:
    """Drafts, or steps, in a step: enough for every minimum after one step, of which a rate sees one in a window."""
    return max(100, int(config.rate_window))


def firing(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """What makes an alert of the catalogue fire, for ``steps`` steps; KeyError for one that has no scenario."""
    return _SCENARIOS[entry.signal](entry, config, steps)


def _of_server(traffic: Traffic, steps: int, config: RulesConfig, value: float) -> Firing:
    """Traffic that is bad from the first; after a third of the time the server restarts, and is no better."""
    phases = [Phase(traffic, steps // 3), Phase(traffic, steps - steps // 3, restarted=True)]
    return Firing(
        series=list(Engine(phases).series(config)),
        begins=1,  # The first increment is between the samples of steps 0 and 1.
        labels={"instance": SERVER, "job": config.vllm_job, "model_name": MODEL},
        value=value,
        fields={"target": SERVER, "model": MODEL},
    )


def _low_acceptance(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts = busy(config)
    accepted = int(drafts * K * config.threshold(entry) / 2)
    return _of_server(Traffic(drafts, accepted), steps, config, accepted / (drafts * K))


def _slower_than_none(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts, c = busy(config), config.draft_cost
    k = K if 1 / (1 + K * c) < config.threshold(entry) else MAX_POSITIONS
    return _of_server(Traffic(drafts, k=k), steps, config, 1 / (1 + k * c))


def _not_drafting(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return _of_server(Traffic(undrafted_steps=busy(config)), steps, config, 0.0)


def _drifted(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    score = config.threshold(entry)
    own = {"instance": SIDECAR, "job": config.specwatch_job, "model_name": MODEL, "target": SERVER}
    return Firing(
        series=[named("specwatch_drift_score", own, levels([(4, score / 2), (steps - 4, score)]))],
        begins=5,
        labels={"instance": SERVER, "job": config.vllm_job, "model_name": MODEL},
        value=score,
        fields={"target": SERVER, "model": MODEL},
    )


def _target_down(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return Firing(
        series=[up(SERVER, config, (3, 1), (steps - 3, 0)), up("vllm-b:8000", config, (steps, 1))],
        begins=4,
        labels=target(SERVER, config),
        fields={"target": SERVER},
    )


def _no_targets(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    other = {"instance": "other:80", "job": f"not-{config.vllm_job}"}
    return Firing(
        series=[named("up", other, levels([(steps, 1)]))],
        begins=0,
        labels={"job": config.vllm_job, **config.target_labels},
        fields={"target": config.vllm_job},
    )


def _sidecar_down(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    own = {"instance": SIDECAR, "job": config.specwatch_job}
    return Firing(
        series=[named("up", own, levels([(3, 1), (steps - 3, 0)])), up(SERVER, config, (steps, 1))],
        begins=4,
        labels=own,
        fields={"target": SIDECAR},
    )


_SCENARIOS: Mapping[str, Callable[[Alert, RulesConfig, int], Firing]] = {
    "acceptance_rate": _low_acceptance,
    "estimated_speedup": _slower_than_none,
    "draft_coverage": _not_drafting,
    "drift_score": _drifted,
    "target_up": _target_down,
    "targets_absent": _no_targets,
    "sidecar_up": _sidecar_down,
}
"""By the signal or state that the alert compares."""


def quiet(config: RulesConfig, steps: int) -> dict[str, list[Series]]:
    """What no alert may fire on, by what it is."""
    drafts = busy(config)
    low = config.threshold(alert("SpeculativeAcceptanceRateLow"))
    good = Traffic(drafts, accepted=drafts * K - int(drafts * K * (1 - low) / 2))
    idle = Traffic()
    third = steps // 3
    lives = {
        "a healthy server that restarts": Engine([Phase(good, third), Phase(good, steps - third, restarted=True)]),
        "a server that falls idle": Engine([Phase(good, third), Phase(idle, steps - third)]),
        "a server that never served": Engine([Phase(idle, steps)]),
        # Without the label of an engine, which is how promtool reads an empty one, it is V0 that speaks.
        "a V0 server, whose speculation counters are corrupt": Engine([Phase(Traffic(drafts), steps)], engine=""),
        "a server without speculation": Engine([Phase(Traffic(undrafted_steps=drafts), steps)], speculates=False),
    }
    return {name: [up(SERVER, config, (steps, 1)), *life.series(config)] for name, life in lives.items()}


def mixed_fleet(config: RulesConfig, steps: int) -> list[Engine]:
    """Servers of one model that must be pooled with care: two engines, two values of K, one without speculation."""
    drafts = busy(config)
    return [
        Engine([Phase(Traffic(2 * drafts, accepted=7 * drafts), steps)]),
        Engine([Phase(Traffic(drafts, accepted=2 * drafts, k=3), steps)], "vllm-b:8000", "0"),
        Engine([Phase(Traffic(drafts, accepted=drafts, k=3, undrafted_steps=drafts), steps)], "vllm-b:8000", "1"),
        Engine([Phase(Traffic(undrafted_steps=drafts), steps)], "vllm-c:8000", speculates=False),
    ]
