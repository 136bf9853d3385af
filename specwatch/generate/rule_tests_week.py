"""promtool's test of what looks back a week: a file of its own, for it is evaluated far less often.

Rules are evaluated once a long window there, so that a week has a few hundred evaluations and not twenty thousand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from specwatch.alerting.watchdogs import alert
from specwatch.generate.alert_subjects import WEEK
from specwatch.generate.promql import duration
from specwatch.generate.recording_rules import LONG
from specwatch.generate.rule_fleets import healthy
from specwatch.generate.rule_scenarios import Firing
from specwatch.generate.rule_tests import alert_test, expectation, group_order
from specwatch.generate.rule_traffic import MODEL, Engine, Phase, Traffic
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.metrics import SPECULATION

STEPS = 24
"""Samples between two evaluations: four in a rate window."""


def tests(config: RulesConfig, rules_file: str) -> dict[str, Any]:
    """The whole test file, for the rules in ``rules_file`` beside it."""
    slow, evaluations = _slow(config)
    entry = alert("SpeculationBelowLastWeek")
    # A week, then one evaluation after which the long window holds the new traffic alone.
    changes = (evaluations + 2) * STEPS
    first = changes + STEPS * (1 + math.ceil(entry.for_seconds / (STEPS * slow.interval)))
    engines, fallen = _lives(config, changes, first + STEPS - changes)
    return {
        "rule_files": [rules_file],
        "evaluation_interval": duration(slow.scaled(STEPS * slow.interval)),
        "group_eval_order": group_order(),
        "tests": [
            {
                "name": f"{entry.name} fires when it should, and not before",
                "interval": duration(slow.scaled(slow.interval)),
                "input_series": [
                    series
                    for engine in engines
                    for series in engine.series(config)
                    if any(counter.value in series["series"] for counter in SPECULATION)
                ],
                "alert_rule_test": [
                    alert_test(entry, changes, slow, []),
                    alert_test(entry, first - STEPS, slow, []),
                    alert_test(entry, first, slow, [expectation(entry, fallen, config)]),
                ],
            }
        ],
    }


def _slow(config: RulesConfig) -> tuple[RulesConfig, int]:
    """The configuration with a step of ours as its interval, and evaluations in a week.

    Steps are whole milliseconds and at least long enough for the week to be over: a look back a week finds the
    evaluation that many before, or nothing.
    """
    evaluations = math.floor(WEEK / (LONG.factor * config.rate_window))
    milliseconds = math.ceil(config.scaled(WEEK) * 1000 / (STEPS * evaluations))
    return config.model_copy(update={"interval": milliseconds / 1000 / config.time_scale}), evaluations


def _lives(config: RulesConfig, before: int, after: int) -> tuple[Sequence[Engine], Firing]:
    """Models that speculated a week ago: one falls; others stay low, change K, restart or fall idle."""
    good, threshold = healthy(config), config.threshold(alert("SpeculationBelowLastWeek"))
    low = Traffic(good.drafts, accepted=int(good.accepted * threshold / 2))
    other_k = Traffic(good.drafts, accepted=low.accepted, k=2 * good.k)
    lives = {
        MODEL: (good, low),
        "as low as ever": (low, low),
        "with another K": (good, other_k),
        "restarted": (good, good),
        "idle": (good, Traffic()),
    }
    engines = [
        Engine([Phase(was, before), Phase(now, after, restarted=True)], model=model)
        for model, (was, now) in lives.items()
    ]
    firing = Firing(
        series=[],
        begins=before,
        labels={"job": config.vllm_job, "model_name": MODEL},
        value=low.accepted / good.accepted,
        fields={"target": config.vllm_job, "model": MODEL},
    )
    return engines, firing
