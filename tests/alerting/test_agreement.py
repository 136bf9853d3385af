"""The sidecar's evaluator and Prometheus' own rule engine with the generated rules, on the same recorded incident."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from specwatch.alerting.catalogue import ALERTS
from specwatch.alerting.evaluation import AlertEvaluator, State
from specwatch.alerting.watchdogs import HEARTBEAT, WATCHDOGS
from specwatch.collect.targets import Target
from specwatch.generate.promql import duration
from specwatch.generate.rule_tests import group_order
from specwatch.generate.rule_traffic import Series, named
from specwatch.generate.rules import alerting_rule, groups
from specwatch.generate.rules_config import INTERVAL, RulesConfig
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.cost import CostCurve, CostPoint
from tests.support.programs import run
from tests.support.recorded_incident import LENGTH, MODEL, SCRAPE, STORIES, Scrape, scrapes, series_of, written
from tests.support.services import promtool

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]

CONFIG = RulesConfig(max_spec_concurrency=32)

EVERY = int(INTERVAL / SCRAPE)
"""Scrapes an evaluation of the rules."""

CALIBRATED = WatchSettings(
    curve=CostCurve.of([CostPoint(5, batch, step_seconds=0.5, plain_step_seconds=0.2) for batch in (1, 8)])
)
"""Steps that cost two and a half plain ones: as measured, foreign traffic is past the break-even."""

ONLY_PROMETHEUS = {
    "SpeculationBelowLastWeek": "it compares with last week, which the sidecar does not remember",
    "SpeculationReplicaOff": "it compares servers; the sidecar's diagnosis does that",
    "SpeculationPastConcurrencyLimit": "its limit is told to the rules alone",
    "SpeculationMetricsAbsent": "it tells of series that are missing in Prometheus",
    "SpeculationNoTargets": "it tells of targets that are missing in Prometheus",
    "SpeculationMetricsMangled": "it tells of names that were changed on the way to Prometheus",
    "SpecwatchSidecarDown": "it watches the sidecar from outside",
    "SpecwatchSidecarStale": "it watches the sidecar from outside",
    "SpecwatchSidecarGone": "it watches the sidecar from outside",
    "SpecwatchWatchdog": "it shows that the way from Prometheus to people works",
}
"""Alerts that the sidecar does not judge, and why."""

FROM_SIDECAR = ("drift_score", "known_speedup", "losslessness_distorted")
"""States that the rules read from the sidecar."""

Told = Mapping[str, Sequence[float | None]]
"""By state, what the sidecar tells after each scrape."""


@dataclass(frozen=True)
class Judged:
    """What came of one server's scrapes."""

    states: Mapping[str, Sequence[State]]
    """By alert, how it stood after each scrape."""
    told: Told
    series: Sequence[Series]


@cache
def judged(server: str) -> Judged:
    """What the sidecar makes of a server's scrapes, and what Prometheus gets."""
    story = next(story for story in STORIES if story.server == server)
    watch, evaluator = TargetWatch(Target(server, f"http://{server}/metrics"), CALIBRATED), AlertEvaluator()
    seen = list(scrapes(story))
    states: dict[str, list[State]] = {entry.name: [] for entry in ALERTS}
    told: dict[str, list[float | None]] = {state: [] for state in FROM_SIDECAR}
    for scrape in seen:
        take_in(watch, scrape)
        evaluator.evaluate(scrape.at, target=server, model=MODEL, values=watch.judged_values(scrape.at))
        active = {status.alert.name: status.state for status in evaluator.active(server)}
        for name, course in states.items():
            course.append(active.get(name, State.INACTIVE))
        for state, values in told.items():
            values.append(watch.view(scrape.at).states()[state])
    return Judged(states, told, list(series_of(server, seen, CONFIG.vllm_job)))


def take_in(watch: TargetWatch, scrape: Scrape) -> None:
    watch.distorted = scrape.distorted
    if scrape.page is None:
        watch.failed("no connection")
    else:
        watch.observe(scrape.at, scrape.page)


def sidecar_series() -> Iterator[Series]:
    """What Prometheus reads from the sidecar."""
    own = {"job": CONFIG.specwatch_job, "instance": "sidecar:9108"}
    yield named("up", own, f"1+0x{int(LENGTH / SCRAPE)}")
    for story in STORIES:
        about = {**own, "target": story.server, "model_name": MODEL}
        for state, values in judged(story.server).told.items():
            yield named(f"specwatch_{state}", about, written(values))


def expectations(server: str) -> Iterator[dict[str, object]]:
    """Of every evaluation, how each alert stands that stood so from one evaluation before to one after."""
    states = judged(server).states
    for number in range(0, int(LENGTH / INTERVAL) + 1):
        first, last = max(number - 1, 0) * EVERY, (number + 1) * EVERY
        sure = {name: set(course[first : last + 1]) for name, course in states.items()}
        known = {name: next(iter(found)) for name, found in sure.items() if len(found) == 1}
        asked = f'ALERTS{{instance="{server}", alertname=~"{"|".join(known)}"}}'
        yield {
            "expr": f"count by (alertname, alertstate) ({asked})",
            "eval_time": duration(number * INTERVAL) if number else "0s",
            "exp_samples": [
                {"labels": f'{{alertname="{name}", alertstate="{state.value}"}}', "value": 1}
                for name, state in known.items()
                if state is not State.INACTIVE
            ],
        }


def changes(course: Sequence[State]) -> Counter[State]:
    """How often an alert came into each state."""
    return Counter(now for before, now in pairwise(course) if now is not before)


def test_the_incident_brings_every_alert_of_the_sidecar_to_fire_and_lets_it_end():
    for entry in ALERTS:
        courses = [judged(story.server).states[entry.name] for story in STORIES]
        assert sum(changes(course)[State.FIRING] for course in courses), entry.name
        assert sum(changes(course)[State.INACTIVE] for course in courses), entry.name
    assert all(State.FIRING not in course for course in judged("steady").states.values())


def test_what_only_prometheus_judges_is_named_with_its_reason():
    judged_there = {rule["alert"] for group in groups(CONFIG) for rule in group["rules"] if "alert" in rule}
    assert judged_there - {entry.name for entry in ALERTS} == ONLY_PROMETHEUS.keys()
    assert {entry.name for entry in (*WATCHDOGS, HEARTBEAT)} == ONLY_PROMETHEUS.keys()
    assert {alerting_rule(entry, CONFIG)["alert"] for entry in ALERTS} <= judged_there


@pytest.mark.services
@pytest.mark.timeout(600)
def test_at_every_evaluation_every_alert_stands_where_prometheus_has_it_to_one_interval(tmp_path: Path):
    (tmp_path / "rules.json").write_text(json.dumps({"groups": groups(CONFIG)}))
    test = {
        "interval": duration(SCRAPE),
        "input_series": [
            *sidecar_series(),
            *(series for story in STORIES for series in judged(story.server).series),
        ],
        "promql_expr_test": [expected for story in STORIES for expected in expectations(story.server)],
    }
    document = {
        "rule_files": ["rules.json"],
        "evaluation_interval": duration(INTERVAL),
        "group_eval_order": group_order(),
        "tests": [test],
    }
    (tmp_path / "tests.json").write_text(json.dumps(document))
    run([promtool(), "test", "rules", "tests.json"], cwd=tmp_path)
