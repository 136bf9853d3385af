"""The state machine of the alerts, on made-up values and a made-up clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.alerting.catalogue import Alert, Comparison, Severity, over_long_window
from specwatch.alerting.evaluation import (
    CLEAR_SECONDS,
    LABEL_LENGTH,
    NO_DATA_SECONDS,
    AlertEvaluator,
    Ending,
    State,
    Transition,
)

LOW = Alert(
    name="Low",
    signal="acceptance_rate",
    comparison=Comparison.BELOW,
    threshold=0.6,
    for_seconds=300.0,
    severity=Severity.TICKET,
    summary="Low on {target}",
    description="{target} ({model}) is at {value}, below {threshold}.",
    min_draft_rate=0.5,
    as_percentage=True,
)
DRIFTED = Alert(
    name="Drifted",
    signal="drift_score",
    comparison=Comparison.AT_LEAST,
    threshold=1.0,
    for_seconds=0.0,
    severity=Severity.TICKET,
    summary="Drift on {target}",
    description="Score {value} of {threshold}.",
)
DOWN = Alert(
    name="Down",
    signal="target_up",
    comparison=Comparison.EQUALS,
    threshold=0.0,
    for_seconds=120.0,
    severity=Severity.PAGE,
    summary="{target} is down",
    description="See to it.",
)

BAD = {"target_up": 1.0, "acceptance_rate": 0.5, "draft_throughput": 100.0}
GOOD = {**BAD, "acceptance_rate": 0.8}
IDLE = {"target_up": 1.0, "acceptance_rate": None, "draft_throughput": 0.0}
UNREACHABLE = {**BAD, "target_up": 0.0}

START = 1_700_000_000.0
STEP = 5.0


class Watch:
    """One target, evaluated every STEP seconds."""

    def __init__(self, *alerts: Alert, time_scale: float = 1.0) -> None:
        self.evaluator = AlertEvaluator(alerts or (LOW,), time_scale=time_scale)
        self.at = START

    def see(self, values: Mapping[str, float | None], seconds: float = 0.0) -> list[Transition]:
        """Evaluate these values once, then for as long as ``seconds`` say; every change on the way."""
        changes = self._once(values)
        for _ in range(round(seconds / STEP)):
            self.at += STEP
            changes += self._once(values)
        return changes

    def _once(self, values: Mapping[str, float | None]) -> list[Transition]:
        return self.evaluator.evaluate(self.at, target="gpu-3", model="llama", values=values)

    def fire(self) -> None:
        """Bring LOW to fire."""
        assert [change.state for change in self.see(BAD, 300)] == [State.FIRING]


def test_an_alert_fires_once_when_its_condition_has_held_for_the_whole_time():
    watch = Watch()

    assert watch.see(BAD, 295) == []
    (fired,) = watch.see(BAD, 600)

    assert fired.state is State.FIRING
    assert fired.at == START + 300
    assert fired.since == START
    assert fired.ending is None


def test_a_pending_alert_is_listed_and_tells_nobody():
    watch = Watch()

    assert watch.see(BAD, 100) == []
    (pending,) = watch.evaluator.active()

    assert (pending.state, pending.since, pending.at) == (State.PENDING, START, START + 100)


def test_a_condition_that_stops_before_its_time_starts_over():
    watch = Watch()

    watch.see(BAD, 295)
    watch.see(GOOD)

    assert watch.evaluator.active() == []
    assert watch.see(BAD, 295) == []


def test_an_alert_without_a_duration_fires_at_the_first_sight():
    (fired,) = Watch(DRIFTED).see({"drift_score": 1.0})

    assert fired.state is State.FIRING


def test_a_firing_alert_resolves_when_its_condition_has_been_false_for_a_minute():
    watch = Watch()
    watch.fire()
    watch.at += STEP

    assert watch.see(GOOD, CLEAR_SECONDS - STEP) == []
    (resolved,) = watch.see(GOOD, STEP)

    assert (resolved.state, resolved.ending) == (State.RESOLVED, Ending.CLEARED)
    assert resolved.value == 0.8
    assert resolved.since == START
    assert watch.evaluator.active() == []


def test_a_resolved_alert_can_fire_again():
    watch = Watch()
    watch.fire()
    watch.see(GOOD, 2 * CLEAR_SECONDS)
    watch.at += STEP
    again = watch.at

    (fired,) = watch.see(BAD, 300)

    assert (fired.state, fired.since) == (State.FIRING, again)


def test_a_value_that_hovers_about_the_threshold_rings_once():
    watch = Watch(DRIFTED)

    changes = [change for score in [1.0, 0.9] * 100 for change in watch.see({"drift_score": score}, STEP)]

    assert [change.state for change in changes] == [State.FIRING]


def test_below_the_minimum_traffic_nothing_becomes_of_an_alert():
    assert Watch().see({**BAD, "draft_throughput": 0.4}, 3600) == []


def test_unknown_traffic_is_not_enough_traffic():
    assert Watch().see({**BAD, "draft_throughput": None}, 3600) == []


def test_traffic_at_the_minimum_is_enough():
    assert len(Watch().see({**BAD, "draft_throughput": 0.5}, 300)) == 1


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_never_holds(unknown: float | None):
    assert Watch().see({**BAD, "acceptance_rate": unknown}, 3600) == []


def test_a_missing_value_starts_a_pending_alert_over():
    watch = Watch()

    watch.see(BAD, 295)
    watch.see(IDLE)

    assert watch.see(BAD, 295) == []


def test_no_data_is_not_fixed_at_once():
    watch = Watch()
    watch.fire()

    assert watch.see(IDLE, NO_DATA_SECONDS - STEP) == []
    (firing,) = watch.evaluator.active()

    assert firing.state is State.FIRING
    assert firing.value == 0.5
    assert firing.value_at == START + 300


def test_no_data_ends_an_alert_at_last_and_says_so():
    watch = Watch()
    watch.fire()

    (ended,) = watch.see(IDLE, NO_DATA_SECONDS)

    assert (ended.state, ended.ending) == (State.RESOLVED, Ending.NO_DATA)
    assert "not because it is known to be fixed" in ended.description
    assert "15 min" in ended.description
    assert "50%" in ended.description


def test_a_value_that_is_still_bad_after_a_pause_counts_the_pause_from_zero_again():
    watch = Watch()
    watch.fire()

    watch.see(IDLE, NO_DATA_SECONDS - STEP)
    watch.see(BAD)

    assert watch.see(IDLE, NO_DATA_SECONDS - STEP) == []


def test_one_good_value_before_silence_does_not_resolve_before_the_next_one():
    watch = Watch()
    watch.fire()

    watch.see(GOOD)
    assert watch.see(IDLE, 2 * CLEAR_SECONDS) == []
    (resolved,) = watch.see(GOOD)

    assert resolved.ending is Ending.CLEARED


def test_a_scrape_that_fails_is_no_time_without_data():
    watch = Watch()

    watch.see(BAD, 150)
    watch.see(UNREACHABLE, 10)
    (fired,) = watch.see(BAD, 140)

    assert fired.since == START


def test_a_target_that_goes_down_does_not_resolve_what_fires_there():
    watch = Watch(LOW, DOWN)
    watch.fire()

    changes = watch.see({**UNREACHABLE, "acceptance_rate": None}, 300)

    assert [(change.alert.name, change.state) for change in changes] == [("Down", State.FIRING)]
    assert {status.alert.name for status in watch.evaluator.active()} == {"Low", "Down"}


@pytest.mark.parametrize(("long", "fires"), [(0.5, True), (0.7, False), (None, False)])
def test_where_an_alert_asks_for_it_the_long_window_must_be_past_the_threshold_as_well(long: float | None, fires: bool):
    watch = Watch(replace(LOW, long_window=True))

    changes = watch.see({**BAD, over_long_window("acceptance_rate"): long}, 300)

    assert bool(changes) == fires


def test_targets_do_not_touch_each_other():
    evaluator = AlertEvaluator((LOW,))
    for step in range(61):
        at = START + step * STEP
        fired = evaluator.evaluate(at, target="one", model="llama", values=BAD)
        assert evaluator.evaluate(at, target="two", model="llama", values=GOOD) == []

    assert [change.target for change in fired] == ["one"]


@pytest.mark.parametrize("stuck", [0.0, -3600.0])
def test_time_that_stands_or_runs_back_makes_nothing_fire(stuck: float):
    watch = Watch()
    watch.see(BAD, 295)

    for _ in range(1000):
        assert watch.evaluator.evaluate(watch.at + stuck, target="gpu-3", model="llama", values=BAD) == []
    watch.at += STEP

    assert len(watch.see(BAD)) == 1


def test_time_scale_shortens_every_duration():
    watch = Watch(time_scale=0.1)

    assert watch.see(BAD, 25) == []
    assert [change.at for change in watch.see(BAD, STEP)] == [START + 30]
    watch.at += STEP
    cleared = watch.at
    assert [change.at for change in watch.see(GOOD, 60)] == [cleared + 10]  # 6 s, at the next evaluation


def test_a_negative_time_scale_is_refused():
    with pytest.raises(ValueError, match="time_scale"):
        AlertEvaluator(time_scale=-1.0)


def test_a_forgotten_target_resolves_what_fires_and_leaves_nothing():
    watch = Watch()
    watch.fire()

    (removed,) = watch.evaluator.forget("gpu-3")

    assert (removed.state, removed.ending) == (State.RESOLVED, Ending.REMOVED)
    assert watch.evaluator.active() == []
    assert watch.evaluator.forget("gpu-3") == []


def test_a_forgotten_target_says_nothing_of_a_pending_alert():
    watch = Watch()
    watch.see(BAD, 100)

    assert watch.evaluator.forget("gpu-3") == []


def test_firing_alerts_are_listed_before_pending_ones_and_older_before_younger():
    evaluator = AlertEvaluator((LOW, DRIFTED))
    evaluator.evaluate(START, target="a", model="", values=BAD)
    evaluator.evaluate(START + 1, target="b", model="", values={"drift_score": 2.0})
    evaluator.evaluate(START + 2, target="c", model="", values={"drift_score": 2.0})

    assert [status.target for status in evaluator.active()] == ["b", "c", "a"]


def test_texts_show_percentages_where_the_alert_does():
    watch = Watch()
    (fired,) = watch.see({**BAD, "acceptance_rate": 0.58349}, 300)

    assert fired.summary == "Low on gpu-3"
    assert fired.description == "gpu-3 (llama) is at 58.3%, below 60%."
    assert fired.condition_text == "below 60%"


def test_texts_show_plain_numbers_elsewhere():
    (fired,) = Watch(DRIFTED).see({"drift_score": 1.23456})

    assert fired.description == "Score 1.23 of 1."
    assert fired.condition_text == "at or above 1"


def test_a_model_without_a_name_is_said_to_be_unknown():
    evaluator = AlertEvaluator((LOW,), time_scale=0)
    (fired,) = evaluator.evaluate(START, target="gpu-3", model="", values=BAD)

    assert "(model unknown)" in fired.description


def test_names_cannot_break_templates_or_lines_and_are_cut_in_sentences():
    name = "{value}\r\n\x1b[31m" + "x" * 10_000
    evaluator = AlertEvaluator((LOW,), time_scale=0)
    (fired,) = evaluator.evaluate(START, target=name, model="llama", values=BAD)

    assert fired.target == name
    assert fired.summary.startswith("Low on {value}   [31mxxx")
    assert len(fired.summary) == len("Low on ") + LABEL_LENGTH
    assert fired.summary.isprintable()


Values = st.sampled_from([BAD, GOOD, IDLE, UNREACHABLE, {}])
Steps = st.lists(st.tuples(st.floats(0.1, 200.0), Values), min_size=1, max_size=60)


@given(Steps)
def test_no_alert_fires_before_its_condition_has_held_without_a_break_for_its_time(steps: list[tuple[float, dict]]):
    evaluator = AlertEvaluator((LOW,))
    at, held_since = START, None
    for step, values in steps:
        at += step
        held_since = (held_since or at) if values in (BAD, UNREACHABLE) else None
        for change in evaluator.evaluate(at, target="gpu-3", model="llama", values=values):
            if change.state is State.FIRING:
                assert held_since is not None
                assert at - held_since >= LOW.for_seconds


@given(Steps)
def test_firing_and_resolved_always_take_turns(steps: list[tuple[float, dict]]):
    evaluator = AlertEvaluator((LOW,), time_scale=0.1)
    at, states = START, []
    for step, values in steps:
        at += step
        states += [c.state for c in evaluator.evaluate(at, target="gpu-3", model="llama", values=values)]

    expected = [State.FIRING, State.RESOLVED] * len(states)
    assert states == expected[: len(states)]


@given(Steps)
def test_every_firing_alert_ends_when_nothing_more_is_known(steps: list[tuple[float, dict]]):
    evaluator = AlertEvaluator((LOW,))
    at = START
    for step, values in steps:
        at += step
        evaluator.evaluate(at, target="gpu-3", model="llama", values=values)

    evaluator.evaluate(at + NO_DATA_SECONDS, target="gpu-3", model="llama", values={})

    assert evaluator.active() == []
