"""Prometheus' recording rules: which counters and signals, over which windows, at which levels.

A window's rules are a group of their own, so that long ones are asked for less often. Series stay few: of one server
with one engine and K = 5 about 60 are recorded, of a model about 50.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specwatch.alerting.catalogue import LONG_WINDOWS
from specwatch.generate.promql import Level, Recording, duration, quoted
from specwatch.generate.rules_config import RulesConfig
from specwatch.signals.catalogue import Signal, signals
from specwatch.signals.speedup import given
from specwatch.vllm.metrics import SPECULATION, Counter

RECORDING_GROUP = "specwatch-recording"

Rule = dict[str, Any]
"""One rule as Prometheus' YAML has it."""

CORE = ("acceptance_rate", "acceptance_length", "draft_length", "estimated_speedup")
"""Signals that are worth a second window, and a look at single engines: what the draft brings."""


@dataclass(frozen=True)
class Window:
    """One window in rate windows, and how many evaluations of the alerts pass between two of its own."""

    factor: int
    every: int
    suffix: str
    """Ends the name of its group."""


SHORT = Window(1, 1, "")
"""Five minutes: what alerts compare and dashboards show. One minute holds two scrapes of 30 s, too few for a rate."""
LONG = Window(LONG_WINDOWS, 1, "-long")
"""Half an hour, the longest that the sidecar tells too: whether something lasts."""
TREND = Window(72, 4, "-trend")
"""Six hours: what is usual at this time of day. It moves by less than 1 % in the two minutes between evaluations."""

WINDOWS = (SHORT, LONG, TREND)


def recording(config: RulesConfig, window: Window = SHORT) -> Recording:
    """Names and expressions of what these rules record over a window."""
    k = config.v0_num_speculative_tokens if window is SHORT else None
    return Recording(vllm_selector(config), config.scaled(config.rate_window) * window.factor, k)


def vllm_selector(config: RulesConfig) -> str:
    """Label matchers of the vLLM targets."""
    labels = {"job": config.vllm_job, **config.target_labels}
    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())


def recorded_signals(config: RulesConfig) -> tuple[Signal, ...]:
    """The catalogue's signals that have PromQL, at the draft cost that was chosen."""
    return tuple(signal for signal in signals(given(config.draft_cost)) if signal.in_promql)


def recording_groups(config: RulesConfig) -> list[dict[str, Any]]:
    """A group a window, each rule after those it reads."""
    return [
        {
            "name": RECORDING_GROUP + window.suffix,
            "interval": duration(config.scaled(config.interval) * window.every),
            "rules": list(window_rules(window, config)),
        }
        for window in WINDOWS
    ]


def recording_rules(config: RulesConfig) -> Iterator[Rule]:
    """The rules of all groups."""
    for window in WINDOWS:
        yield from window_rules(window, config)


def window_rules(window: Window, config: RulesConfig) -> Iterator[Rule]:
    """Rates of counters, then signals, level by level."""
    names = recording(config, window)
    core = [signal for signal in recorded_signals(config) if signal.name in CORE]
    if window is not SHORT:
        for level in (Level.INSTANCE, Level.MODEL, Level.FLEET):
            yield from _level_rules(names, level, SPECULATION, core)
        return
    yield from _level_rules(names, Level.ENGINE, (*SPECULATION, Counter.RUNNING_SECONDS), core)
    for level in (Level.INSTANCE, Level.MODEL, Level.FLEET):
        yield _record(names.accepted_at_position(level), names.accepted_at_position_expression(level))
        yield _record(names.drafts_at_position(level), names.drafts_at_position_expression(level))
        yield from _level_rules(names, level, tuple(Counter), recorded_signals(config))
        yield _record(names.cache_usage(level), names.cache_usage_expression(level))


def _level_rules(
    names: Recording, level: Level, counters: Sequence[Counter], chosen: Sequence[Signal]
) -> Iterator[Rule]:
    for counter in counters:
        yield _record(names.counter(counter, level), names.counter_expression(counter, level))
    for signal in chosen:
        # The rate of one counter is recorded already.
        if names.signal(signal, level) != names.signal_expression(signal, level):
            yield _record(names.signal(signal, level), names.signal_expression(signal, level))


def _record(name: str, expression: str) -> Rule:
    return {"record": name, "expr": expression}
