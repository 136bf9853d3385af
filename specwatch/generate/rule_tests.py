"""promtool's unit tests of the generated rules, for the thresholds and durations that were chosen.

They go out with the rules, so that whoever changes these by hand learns what broke. Every alert must fire on the
evaluation on which it should, with all labels and texts, and not on the one before; none may fire on a healthy
server that restarts, on an idle one, or on one without speculation. Published configurations that speculation made
1.4 to 3.4 times faster must not be paged for. What is recorded must be what the formulas in Python make of the same
increments. ``rule_tests_week`` has what looks back a week.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote_plus

from specwatch.alerting.catalogue import Alert
from specwatch.alerting.evaluation import CLEAR_SECONDS, NO_DATA_SECONDS
from specwatch.alerting.watchdogs import HEARTBEAT, alert
from specwatch.generate.alert_subjects import subject_of
from specwatch.generate.promql import Level, duration, quoted
from specwatch.generate.recording_rules import (
    CORE,
    RECORDING_GROUP,
    SHORT,
    WINDOWS,
    Window,
    recorded_signals,
    recording,
    window_rules,
)
from specwatch.generate.rule_fleets import healthy, mixed_fleet, quiet
from specwatch.generate.rule_published import published
from specwatch.generate.rule_scenarios import Firing, fires_by_itself, firing, more_ways_to_fire
from specwatch.generate.rule_traffic import MODEL, SERVER, Engine, K, Phase, Traffic, busy, levels, named, target, up
from specwatch.generate.rules import ALERTING_GROUP, NOBODY, RUNBOOKS
from specwatch.generate.rules_config import RulesConfig
from specwatch.signals.catalogue import Signal, Value, evaluate, signal
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import SPECULATION, V0_EFFICIENCY, SinceStart

DECIMALS = 6
"""To which recorded values are compared: promtool before 3.0 wants floats that are equal to the last bit."""

DIGITS = {"value": 3, "threshold": 6}
"""Shown in a text: a threshold as it was chosen, a value to the precision that its window has."""

Test = dict[str, Any]
"""One test as promtool's YAML has it."""


def tests(config: RulesConfig, rules_file: str) -> dict[str, Any]:
    """The whole test file, for the rules in ``rules_file`` beside it."""
    return {
        "rule_files": [rules_file],
        "evaluation_interval": _at(1, config),
        "group_eval_order": group_order(),
        "tests": [
            *(test for entry in config.alerts if fires_by_itself(entry) for test in _fires(entry, config)),
            _beats(config),
            *_rides_out_a_blip(config),
            _outlives_its_data(config),
            *_stays_silent(config),
            _published(config),
            _records(config),
            *_records_v0(config),
        ],
    }


def group_order() -> list[str]:
    """The rules' groups, those that read others after them."""
    return [*(RECORDING_GROUP + window.suffix for window in WINDOWS), ALERTING_GROUP]


def _fires(entry: Alert, config: RulesConfig) -> Iterator[Test]:
    held = math.ceil(entry.for_seconds / config.interval)
    scenarios = {"when it should": firing, **more_ways_to_fire(entry)}
    for what, scenario in scenarios.items():
        subject = scenario(entry, config, held + 20)
        first = subject.begins + held
        yield {
            "name": f"{entry.name} fires {what}, and not before",
            "interval": _at(1, config),
            "input_series": subject.series,
            "alert_rule_test": [
                *([alert_test(entry, first - 1, config, [])] if first else []),
                alert_test(entry, first, config, [expectation(entry, subject, config)]),
            ],
        }


def expectation(entry: Alert, subject: Firing, config: RulesConfig) -> dict[str, Any]:
    """An alert as it should arrive, with all labels and texts."""
    return {
        "exp_labels": {"severity": config.severity(entry).value, **config.alert_labels, **subject.labels},
        "exp_annotations": _annotations(entry, subject, config),
    }


def _annotations(entry: Alert, subject: Firing, config: RulesConfig) -> dict[str, str]:
    """The texts as they should arrive, worked out here without Prometheus' templates."""
    numbers = {"value": subject.value, "threshold": config.threshold(entry)}
    shown = {
        name: f"{number * 100:.4g}%" if entry.as_percentage else f"{number:.{DIGITS[name]}g}"
        for name, number in numbers.items()
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
    if entry.name.startswith("Specwatch"):
        return ""
    # A link names what every result of the alert has; some of its results have more.
    certain = subject_of(entry, config).labels
    kept = [name for name in Level.INSTANCE.labels if name in certain]
    query = "&".join(f"var-{name}={quote_plus(subject.labels[name])}" for name in kept)
    return f"{'&' if '?' in config.dashboard_url else '?'}{query}"


def _beats(config: RulesConfig) -> Test:
    expected = {
        "exp_labels": {"severity": NOBODY, **config.alert_labels},
        "exp_annotations": {
            "summary": HEARTBEAT.summary,
            "description": HEARTBEAT.description,
            "runbook_url": f"{config.runbook_base or RUNBOOKS}/{HEARTBEAT.runbook}",
        },
    }
    return {
        "name": f"{HEARTBEAT.name} always fires",
        "interval": _at(1, config),
        "input_series": [up(SERVER, config, (4, 1), (4, 0))],
        "alert_rule_test": [
            {"eval_time": _at(step, config), "alertname": HEARTBEAT.name, "exp_alerts": [expected]} for step in (0, 6)
        ],
    }


def _rides_out_a_blip(config: RulesConfig) -> Iterator[Test]:
    """Two rate windows of loss among good ones are no page; a loss that lasts is one."""
    entry = alert("SpeculationSlowerThanNone")
    window = math.ceil(config.rate_window / config.interval)
    good, loss = healthy(config), Traffic(busy(config))
    speedups = [(1 + k * rate) / (1 + k * config.draft_cost) for k, rate in ((good.k, _rate(good)), (loss.k, 0.0))]
    room = (speedups[0] - config.threshold(entry)) / (speedups[0] - speedups[1])
    if not 0.4 < room < 1.0:  # With these thresholds and costs two windows of six are no blip, or nothing is a loss.
        return
    life = [Phase(good, 6 * window), Phase(loss, 2 * window), Phase(good, 6 * window), Phase(loss, 10 * window)]
    subject = _one_server(life, speedups[1], config)
    yield {
        "name": f"{entry.name} rides out a blip, and not a loss that lasts",
        "interval": _at(1, config),
        "input_series": subject.series,
        "alert_rule_test": [
            *(alert_test(entry, step, config, []) for step in range(6 * window, 14 * window + 1, max(window // 2, 1))),
            alert_test(entry, 24 * window, config, [expectation(entry, subject, config)]),
        ],
    }


def _outlives_its_data(config: RulesConfig) -> Test:
    """No data is not "fixed": what fires goes on to fire on a server that falls idle, and not for ever."""
    entry = alert("SpeculativeAcceptanceRateLow")
    drafts, served = busy(config), _settled(config)
    low = Traffic(drafts, accepted=int(drafts * K * config.threshold(entry) / 2))
    # Of the window's length after the last draft there is a value.
    kept = served + math.floor((NO_DATA_SECONDS - CLEAR_SECONDS) / config.interval)
    over = served + math.ceil((config.rate_window + NO_DATA_SECONDS) / config.interval) + 2
    subject = _one_server([Phase(low, served), Phase(Traffic(), over - served)], _rate(low), config)
    return {
        "name": f"{entry.name} goes on to fire for a while where nothing more is known",
        "interval": _at(1, config),
        "input_series": subject.series,
        "alert_rule_test": [
            alert_test(entry, kept, config, [expectation(entry, subject, config)]),
            alert_test(entry, over, config, []),
        ],
    }


def _one_server(life: Sequence[Phase], value: float, config: RulesConfig) -> Firing:
    """A server that lives so, and fires with that value."""
    return Firing(
        series=list(Engine(life).series(config)),
        begins=0,
        labels={"instance": SERVER, "job": config.vllm_job, "model_name": MODEL},
        value=value,
        fields={"target": SERVER, "model": MODEL},
    )


def _rate(traffic: Traffic) -> float:
    return traffic.accepted / (traffic.drafts * traffic.k)


def _stays_silent(config: RulesConfig) -> Iterator[Test]:
    alerts, longest = config.alerts, _settled(config)
    steps = longest + longest // 2
    for name, series in quiet(config, steps).items():
        yield {
            "name": f"Nothing fires on {name}",
            "interval": _at(1, config),
            "input_series": series,
            "alert_rule_test": [alert_test(entry, step, config, []) for entry in alerts for step in (longest, steps)],
        }


def _settled(config: RulesConfig) -> int:
    """Steps after which whatever holds from the first has fired."""
    longest = max(entry.for_seconds for entry in config.alerts if fires_by_itself(entry))
    return math.ceil((longest + config.rate_window) / config.interval)


def _published(config: RulesConfig) -> Test:
    """Their acceptance rates are below 60 %, so that alert fires: it is a ticket, and this is why."""
    steps = _settled(config)
    engines, firings = published(config, steps)
    return {
        "name": "Published configurations, all of them faster with speculation, are judged by speed",
        "interval": _at(1, config),
        "input_series": [
            *(up(engine.instance, config, (steps, 1)) for engine in engines),
            *(series for engine in engines for series in engine.series(config)),
        ],
        "alert_rule_test": [
            alert_test(
                entry, steps, config, [expectation(entry, subject, config) for subject in firings.get(entry.name, [])]
            )
            for entry in config.alerts
        ],
    }


def alert_test(entry: Alert, step: int, config: RulesConfig, expected: list[Any]) -> Test:
    """What fires of an alert at a step."""
    return {"eval_time": _at(step, config), "alertname": entry.name, "exp_alerts": expected}


def _records(config: RulesConfig) -> Test:
    """Every recorded signal of a mixed fleet, over every window, by engine, server, model and job."""
    steps = WINDOWS[0].factor * 2 * math.ceil(config.rate_window / config.interval)
    fleet = mixed_fleet(config, steps)
    series = [entry for engine in fleet for entry in engine.series(config)]
    recorded = {rule["record"] for window in WINDOWS for rule in window_rules(window, config)}
    return {
        "name": "Recorded signals are what the formulas make of the same increments",
        "interval": _at(1, config),
        "input_series": series,
        "promql_expr_test": [
            _expression_test(signal, level, window, fleet, steps, config)
            for window in WINDOWS
            for level in Level
            for signal in recorded_signals(config)
            if recording(config, window).signal(signal, level) in recorded and (window is SHORT or signal.name in CORE)
        ],
    }


def _expression_test(
    signal: Signal, level: Level, window: Window, fleet: Sequence[Engine], steps: int, config: RulesConfig
) -> Test:
    samples = []
    for place in dict.fromkeys(_place(engine, level) for engine in fleet):
        pooled = [_increments(engine, config) for engine in fleet if _place(engine, level) == place]
        labels = {"job": config.vllm_job, **dict(zip(level.labels[1:], place, strict=True))}
        samples += _samples(evaluate([signal], pooled)[signal.name], labels)
    return {
        "expr": f"round({recording(config, window).signal(signal, level)}, 1e-{DECIMALS})",
        "eval_time": _at(steps, config),
        "exp_samples": samples,
    }


def _place(engine: Engine, level: Level) -> tuple[str, ...]:
    """The values of the level's labels after the job."""
    labels = {"instance": engine.instance, "model_name": engine.model, "engine": engine.engine}
    return tuple(labels[name] for name in level.labels[1:])


def _records_v0(config: RulesConfig) -> Iterator[Test]:
    """V0 tells its acceptance by its efficiency, once K is known, under the names that V1 has."""
    k, efficiency = config.v0_num_speculative_tokens, 0.6
    if k is None:
        return
    own = {"model_name": MODEL, **target(SERVER, config)}
    told = SinceStart(efficiency)
    expected = {"acceptance_rate": told.acceptance_rate(k), "acceptance_length": told.acceptance_length(k)}
    place = {"instance": SERVER, "job": config.vllm_job, "model_name": MODEL}
    yield {
        "name": "Acceptance of a V0 server is what its efficiency says",
        "interval": _at(1, config),
        "input_series": [named(V0_EFFICIENCY, own, levels([(4, efficiency)]))],
        "promql_expr_test": [
            {
                "expr": f"round({recording(config).signal(signal(name))}, 1e-{DECIMALS})",
                "eval_time": _at(2, config),
                "exp_samples": _samples(value, place),
            }
            for name, value in expected.items()
        ],
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
