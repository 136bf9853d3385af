from __future__ import annotations

import re

import pytest

from specwatch.generate.promql import EXPORTED_TOGETHER, V1_ONLY, Level, Recording, duration, quoted
from specwatch.signals.catalogue import Signal, signal, signals
from specwatch.signals.formula import Ratio
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, SPECULATION, Counter, Dialect
from tests.support.pages import FIXTURES, page

NAMES = Recording('job="vllm"', 300.0)

each_level = pytest.mark.parametrize("level", Level, ids=lambda level: level.word)
each_signal = pytest.mark.parametrize(
    "entry", [entry for entry in signals() if entry.in_promql], ids=lambda entry: entry.name
)


def recorded_names(level: Level) -> set[str]:
    counters = {NAMES.counter(counter, level) for counter in Counter}
    return {*counters, NAMES.accepted_at_position(level), NAMES.drafts_at_position(level)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(300, "5m"), (90, "90s"), (3600, "1h"), (86_400, "1d"), (1.5, "1500ms"), (0.3, "300ms"), (7200, "2h"), (0, "1ms")],
)
def test_a_duration_is_written_in_the_largest_exact_unit(seconds: float, text: str):
    assert duration(seconds) == text


def test_a_label_value_with_quotes_stays_one_string():
    assert quoted('a "b" \\ ü') == r'"a \"b\" \\ ü"'


def test_recorded_names_follow_prometheus_practice():
    assert NAMES.counter(Counter.ACCEPTED_TOKENS) == "instance:vllm_spec_decode_accepted_tokens:rate5m"
    assert NAMES.counter(Counter.GENERATION_TOKENS, Level.MODEL) == "model:vllm_generation_tokens:rate5m"
    assert NAMES.counter(Counter.RUNNING_SECONDS) == "instance:vllm_num_requests_running:avg5m"
    assert NAMES.signal(signal("acceptance_rate")) == "instance:specwatch_acceptance_rate:ratio_rate5m"
    assert NAMES.signal(signal("wasted_throughput")) == "instance:specwatch_wasted_throughput:rate5m"
    assert Recording('job="vllm"', 15.0).signal(signal("tpot")) == "instance:specwatch_tpot:ratio_rate15s"


def test_the_rate_of_one_counter_is_not_recorded_twice():
    assert NAMES.signal(signal("generation_throughput")) == NAMES.counter(Counter.GENERATION_TOKENS)
    assert NAMES.signal(signal("running_requests")) == NAMES.counter(Counter.RUNNING_SECONDS)


def test_every_name_of_a_counter_is_asked_for_the_current_one_first():
    for counter, names in SERIES.items():
        found = re.findall(r"rate\((vllm:\w+)\{", NAMES.counter_expression(counter))
        assert tuple(found) == names
    assert "\n  or\n" in NAMES.counter_expression(Counter.DECODE_STEPS)


def test_gauges_are_averaged_and_never_rated():
    for counter, name in GAUGES.items():
        assert f"avg_over_time({name}{{" in NAMES.counter_expression(counter)


def test_speculation_is_read_from_the_v1_engine_alone():
    for counter in Counter:
        assert (V1_ONLY in NAMES.counter_expression(counter)) == (counter in SPECULATION)
    assert V1_ONLY in NAMES.accepted_at_position_expression()
    assert NAMES.drafts_at_position_expression().count(V1_ONLY) == 2


def test_every_series_that_is_asked_for_is_a_cumulative_one_of_the_dialect():
    text = "\n".join(NAMES.counter_expression(counter) for counter in Counter) + NAMES.drafts_at_position_expression()
    rated = set(re.findall(r"rate\((vllm:\w+)\{", text))
    assert rated == {name for names in SERIES.values() for name in names} | {POSITION_SERIES}


@each_level
@each_signal
def test_a_signal_reads_recorded_series_alone(entry: Signal, level: Level):
    read = set(re.findall(r"\b(?:engine|instance|model|fleet):[\w:]+", NAMES.signal_expression(entry, level)))
    assert read
    assert read <= recorded_names(level) | recorded_names(Level.INSTANCE)


@each_level
@each_signal
def test_no_signal_averages_ratios(entry: Signal, level: Level):
    assert "avg" not in NAMES.signal_expression(entry, level).replace(":avg5m", "")
    assert ":ratio" not in NAMES.signal_expression(entry, level)


@each_level
@each_signal
def test_a_signal_asks_for_as_many_drafts_a_second_as_its_formula_asks_for_in_the_window(entry: Signal, level: Level):
    if isinstance(entry.formula, Ratio) and not entry.formula.at_least:
        assert ">=" not in NAMES.signal_expression(entry, level)
    else:
        assert ">= 0.1" in NAMES.signal_expression(entry, level)


@each_level
@pytest.mark.parametrize("name", ["tpot", "step_latency"])
def test_a_quotient_without_a_minimum_asks_for_a_denominator_above_zero(name: str, level: Level):
    assert " > 0)" in NAMES.signal_expression(signal(name), level)


def test_servers_that_do_not_speculate_are_left_out_of_both_sides_of_a_models_coverage():
    above, below = NAMES.signal_expression(signal("draft_coverage"), Level.MODEL).split("\n/\n")
    for side in (above, below):
        assert NAMES.counter(Counter.DRAFTS) in side
        assert NAMES.counter(Counter.DECODE_STEPS) in side


@pytest.mark.parametrize("name", [path.stem for path in FIXTURES.glob("*.txt")])
def test_real_servers_export_all_counters_of_a_set_or_none(name: str):
    snapshot = page(name)
    for engine in snapshot.engines.values():
        for together in EXPORTED_TOGETHER:
            present = together & (engine.counters.keys() | engine.gauges.keys())
            counted = {counter for counter in present if engine.counters.get(counter, 1.0)}
            # A V0 engine that has served nothing yet shows only some of its families, all at 0.
            assert not counted or present == together or snapshot.dialect is Dialect.NO_STATS
