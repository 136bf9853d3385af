"""Traffic for promtool's tests of the rules: series as vLLM's V1 engine and Prometheus would show them.

Time runs in steps, at which every series has a sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from specwatch.generate.promql import number, quoted
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, SPECULATION, Counter

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
SERVER = "vllm-a:8000"
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
    running: float = 4
    """Requests in the batch while there are steps."""
    by_position: tuple[int, ...] = ()
    """Accepted tokens by position, where they are not as even as their sum allows."""

    @classmethod
    def accepting(cls, drafts: int, by_position: Sequence[int]) -> Traffic:
        """Drafts of as many tokens as there are positions, of which these are accepted."""
        return cls(drafts, sum(by_position), len(by_position), by_position=tuple(by_position))

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
        """Accepted tokens by position."""
        if self.by_position:
            return list(self.by_position)
        whole, rest = divmod(self.accepted, self.k)
        return [whole + (position < rest) for position in range(self.k)]

    @property
    def gauges(self) -> dict[Counter, float]:
        """Requests in the batch and in the queue."""
        running = min(self.drafts + self.undrafted_steps, self.running)
        return {Counter.RUNNING_SECONDS: running, Counter.WAITING_SECONDS: 0}


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
    model: str = MODEL

    def series(self, config: RulesConfig) -> Iterator[Series]:
        """Every series of the engine."""
        own = {"engine": self.engine, "model_name": self.model, **target(self.instance, config)}
        for counter, names in SERIES.items():
            if self.speculates or counter not in SPECULATION:
                yield named(names[0], own, values([(p, p.traffic.counts[counter]) for p in self.phases]))
        for position in range(max(p.traffic.k for p in self.phases) if self.speculates else 0):
            by_position = values([(p, _at_position(p.traffic, position)) for p in self.phases])
            yield named(POSITION_SERIES, {**own, "position": str(position)}, by_position)
        for counter, name in GAUGES.items():
            yield named(name, own, levels([(p.steps, p.traffic.gauges[counter]) for p in self.phases]))


def _at_position(traffic: Traffic, position: int) -> int | None:
    return traffic.positions[position] if position < traffic.k else None


def target(instance: str, config: RulesConfig) -> dict[str, str]:
    """Labels that Prometheus gives to a vLLM target."""
    return {"instance": instance, "job": config.vllm_job, **config.target_labels}


def named(name: str, labels: Mapping[str, str], text: str) -> Series:
    """One input series."""
    matchers = ", ".join(f"{key}={quoted(value)}" for key, value in sorted(labels.items()))
    return {"series": f"{name}{{{matchers}}}", "values": text}


def values(phases: Sequence[tuple[Phase, float | None]]) -> str:
    """A counter's values: 0 at first, then one increment a step; None where there is no such series."""
    parts, now = [], 0.0
    for index, (phase, step) in enumerate(phases):
        if step is None:
            parts.append(gone(phase.steps + (index == 0)))
            continue
        start = 0.0 if phase.restarted or index == 0 else now + step
        steps = phase.steps if index == 0 else phase.steps - 1
        parts.append(f"{number(start)}+{number(step)}x{steps}")
        now = start + step * steps
    return " ".join(parts)


def gone(steps: int) -> str:
    """No samples for so many steps: Prometheus marks the first of them, so that nobody takes the last one for now."""
    return f"stale _x{steps - 1}" if steps > 1 else "stale"


def levels(phases: Sequence[tuple[int, float]]) -> str:
    """A gauge's values; the first phase has the sample at 0 as well."""
    return " ".join(f"{number(level)}+0x{steps - (index > 0)}" for index, (steps, level) in enumerate(phases))


def up(instance: str, config: RulesConfig, *phases: tuple[int, float]) -> Series:
    """Prometheus' own word on a vLLM target."""
    return named("up", target(instance, config), levels(phases))


def busy(config: RulesConfig) -> int:
    """Drafts, or steps, in a step: enough for every minimum after one step, of which a rate sees one in a window."""
    return max(100, int(config.rate_window))
