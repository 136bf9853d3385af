"""promtool's unit tests of the generated rules, for the thresholds and durations that were chosen.

They go out with the rules, so that whoever changes these by hand learns what broke. Every alert must fire on the
evaluation on which it should, with all labels and texts, and not on the one before; none may fire on a healthy
server that restarts, on an idle one, or on one without speculation. What is recorded must be what the formulas in
Python make of the same increments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote_plus

from specwatch.alerting.catalogue import Alert
from specwatch.generate.promql import Level, duration, quoted
from specwatch.generate.rule_scenarios import MODEL, Engine, Firing, firing, mixed_fleet, quiet
from specwatch.generate.rules import ALERTING_GROUP, RECORDING_GROUP, RUNBOOKS, recording
from specwatch.generate.rules_config import RULES, RulesConfig
from specwatch.signals.catalogue import Signal, Value, evaluate, signals
from specwatch.signals.speedup import given
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import SPECULATION

DECIMALS = 6
"""To which recorded values are compared: promtool before 3.0 wants floats that are equal to the last bit."""

Test = dict[str, Any]
"""One test as promtool's YAML has it."""


def tests(config: RulesConfig, rules_file: str) -> dict[str, Any]:
    """The whole test file, for the rules in ``rules_file`` beside it."""
    return {
        "rule_files": [rules_file],
        "evaluation_interval": _at(1, config),
        "group_eval_order": [RECORDING_GROUP, ALERTING_GROUP],
        "tests": [
            *(_fires(entry, config) for entry in RULES),
            *_stays_silent(config),
            _records(config),
        ],
    }


def _fires(entry: Alert, config: RulesConfig) -> Test:
    held = math.ceil(entry.for_seconds / config.interval)
    subject = firing(entry, config, steps=held + 20)
    first = subject.begins + held
    expected = {
        "exp_labels": {"severity": config.severity(entry).value, **subject.labels},
        "exp_annotations": _annotations(entry, subject, config),
    }
    return {
        "name": f"{entry.name} fires when it should, and not before",
        "interval": _at(1, config),
        "input_series": subject.series,
        "alert_rule_test": [
            *([_alert_test(entry, first - 1, config, [])] if first else []),
            _alert_test(entry, first, config, [expected]),
        ],
    }


def _annotations(entry: Alert, subject: Firing, config: RulesConfig) -> dict[str, str]:
    """The texts as they should arrive, worked out here without Prometheus' templates."""
    numbers = {"value": subject.value, "threshold": config.threshold(entry)}
    shown = {
        name: f"{number * 100:.4g}%" if entry.as_percentage else f"{number:.3g}" for name, number in numbers.items()
    }
    fields = {**subject.fields, **shown}
    annotations = {
        "summary": entry.summary.format_map(fields),
        "description": entry.description.format_map(fields),
        "runbook_url": f"{config.runbook_base or RUNBOOKS}/{entry.runbook}",
    }
    if config.dashboard_url:
        annotations["dashboard_url"] = config.dashboard_url + _variables(entry, subject, config)
    return annotations


def _variables(entry: Alert, subject: Firing, config: RulesConfig) -> str:
    if entry.signal == "sidecar_up":
        return ""
    kept = [name for name in Level.INSTANCE.labels if name in subject.labels]
    query = "&".join(f"var-{name}={quote_plus(subject.labels[name])}" for name in kept)
    return f"{'&' if '?' in config.dashboard_url else '?'}{query}"


def _stays_silent(config: RulesConfig) -> Iterator[Test]:
    longest = max(math.ceil((entry.for_seconds + config.rate_window) / config.interval) for entry in RULES)
    steps = 2 * longest
    for name, series in quiet(config, steps).items():
        yield {
            "name": f"Nothing fires on {name}",
            "interval": _at(1, config),
            "input_series": series,
            "alert_rule_test": [_alert_test(entry, step, config, []) for entry in RULES for step in (longest, steps)],
        }


def _alert_test(entry: Alert, step: int, config: RulesConfig, expected: list[Any]) -> Test:
    return {"eval_time": _at(step, config), "alertname": entry.name, "exp_alerts": expected}


def _records(config: RulesConfig) -> Test:
    """Every recorded signal of a mixed fleet, by server and by model."""
    steps = 2 * math.ceil(config.rate_window / config.interval)
    fleet = mixed_fleet(config, steps)
    series = [entry for engine in fleet for entry in engine.series(config)]
    return {
        "name": "Recorded signals are what the formulas make of the same increments",
        "interval": _at(1, config),
        "input_series": series,
        "promql_expr_test": [
            _expression_test(signal, level, fleet, steps, config)
            for level in Level
            for signal in signals(given(config.draft_cost))
        ],
    }


def _expression_test(signal: Signal, level: Level, fleet: Sequence[Engine], steps: int, config: RulesConfig) -> Test:
    samples = []
    for instance in dict.fromkeys(engine.instance if level is Level.INSTANCE else "" for engine in fleet):
        pooled = [_increments(engine, config) for engine in fleet if instance in ("", engine.instance)]
        place = {"job": config.vllm_job, **({"instance": instance} if instance else {}), "model_name": MODEL}
        samples += _samples(evaluate([signal], pooled)[signal.name], place)
    return {
        "expr": f"round({recording(config).signal(signal, level)}, 1e-{DECIMALS})",
        "eval_time": _at(steps, config),
        "exp_samples": samples,
    }


def _samples(value: Value, place: dict[str, str]) -> list[dict[str, Any]]:
    by_position = enumerate(value) if isinstance(value, tuple) else [(None, value)]
    return [
        {
            "labels": _labels(place if position is None else {**place, "position": str(position)}),
            "value": math.floor(number * 10**DECIMALS + 0.5) / 10**DECIMALS,
        }
        for position, number in by_position
        if number is not None
    ]


def _labels(labels: dict[str, str]) -> str:
    return f"{{{', '.join(f'{name}={quoted(value)}' for name, value in labels.items())}}}"


def _increments(engine: Engine, config: RulesConfig) -> Increments:
    """What an engine with one phase does within a window."""
    traffic = engine.phases[0].traffic
    steps = config.rate_window / config.interval
    seconds = config.scaled(config.rate_window)
    counts = {
        **{counter: count * steps for counter, count in traffic.counts.items()},
        **{counter: level * seconds for counter, level in traffic.gauges.items()},
    }
    if engine.speculates:
        return Increments(seconds, counts, tuple(accepted * steps for accepted in traffic.positions))
    return Increments(seconds, {counter: count for counter, count in counts.items() if counter not in SPECULATION})


def _at(step: int, config: RulesConfig) -> str:
    return duration(config.scaled(step * config.interval))
