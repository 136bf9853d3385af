from __future__ import annotations

import pytest

from specwatch.signals.catalogue import Value, evaluate, signals
from specwatch.signals.diagnosis import Evidence, Level, diagnose
from specwatch.signals.drift import DriftReading
from specwatch.vllm.metrics import Dialect
from tests.support.pages import between


def codes(dialect: Dialect = Dialect.V1, **values: Value) -> list[str]:
    return [finding.code for finding in diagnose(Evidence(dialect, {"generation_throughput": 500.0} | values))]


HEALTHY: dict[str, Value] = {"acceptance_rate": 0.85, "estimated_speedup": 3.2, "draft_coverage": 1.0}


def test_a_healthy_server_is_called_so():
    assert codes(**HEALTHY) == ["healthy"]


@pytest.mark.parametrize(
    ("dialect", "code"),
    [
        (Dialect.OFF, "no-speculation"),
        (Dialect.NO_STATS, "no-statistics"),
        (Dialect.MANGLED, "mangled-names"),
        (Dialect.NOT_VLLM, "not-vllm"),
        (Dialect.DIFFUSION, "diffusion-model"),
    ],
)
def test_a_page_without_speculation_is_explained(dialect: Dialect, code: str):
    assert codes(dialect) == [code]


def test_after_one_scrape_nothing_is_claimed():
    nothing = {"generation_throughput": None, "acceptance_rate": None, "estimated_speedup": None}
    findings = diagnose(Evidence(Dialect.V1, nothing))
    assert [(f.code, f.level) for f in findings] == [("one-scrape", Level.NOTICE)]


def test_no_traffic_is_no_problem_and_no_judgement():
    findings = diagnose(Evidence(Dialect.V1, {"generation_throughput": 0.0}))
    assert [(f.code, f.level) for f in findings] == [("no-traffic", Level.NOTICE)]


def test_a_collapse_on_captured_pages_is_a_loss_and_low():
    increments = between("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
    findings = diagnose(Evidence(Dialect.V1, evaluate(signals(), [increments])))
    assert [f.code for f in findings] == ["slower-than-none", "acceptance-low"]
    assert "1.5%" in findings[1].text
    assert "0.86" in findings[0].text


def test_a_schedule_that_turned_drafting_off_is_named():
    assert codes(draft_coverage=0.0) == ["not-drafting"]


def test_partly_drafted_traffic_gets_a_word():
    assert codes(**HEALTHY | {"draft_coverage": 0.4}) == ["healthy", "partly-drafted"]


def test_too_few_drafts_are_said_to_be_too_few():
    assert codes(draft_coverage=1.0) == ["too-little-traffic"]


def test_problems_come_before_notices():
    findings = diagnose(
        Evidence(Dialect.V1, {"generation_throughput": 9.0, **HEALTHY, "acceptance_rate": 0.4}, engines=4)
    )
    assert [f.code for f in findings] == ["acceptance-low", "several-engines"]


def test_a_healthy_server_of_several_engines_is_called_healthy_first():
    findings = diagnose(Evidence(Dialect.V1, {"generation_throughput": 9.0, **HEALTHY}, engines=4))
    assert [f.code for f in findings] == ["healthy", "several-engines"]


def test_drift_tells_what_was_normal_and_what_is_now():
    drift = DriftReading(score=1.2, reference=0.851, since=0.0, learned=1.0)
    findings = diagnose(
        Evidence(Dialect.V1, {"generation_throughput": 9.0, **HEALTHY, "acceptance_rate": 0.7}, drift=drift)
    )
    assert findings[0].code == "drifted"
    assert "85.1%" in findings[0].text
    assert "70.0%" in findings[0].text


def test_the_old_engine_is_told_what_it_cannot_tell():
    assert "v0-engine" in codes(Dialect.V0)
    assert codes(Dialect.V1_MIN, acceptance_rate=0.9) == ["healthy", "no-drafts-counter"]
