"""What one server alone shows. Replicas held against each other are in test_fleet_diagnosis.py."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from specwatch.signals import diagnosis
from specwatch.signals.catalogue import Value, evaluate, signals
from specwatch.signals.course import FIRST_POSITIONS, Block, CourseView, Deployment
from specwatch.signals.diagnosis import diagnose
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level
from specwatch.signals.speedup import Speedup, SpeedupKind
from specwatch.signals.window import Increments
from specwatch.signals.workload import Shift, WorkloadReading
from specwatch.vllm.metrics import Counter, Dialect
from specwatch.vllm.requests_seen import Feature
from tests.support.drift import alarmed, calm
from tests.support.pages import between
from tests.support.programs import ROOT

NOW = 100_000.0

HEALTHY: dict[str, Value] = {
    "generation_throughput": 500.0,
    "acceptance_rate": 0.85,
    "acceptance_length": 5.25,
    "draft_length": 5.0,
    "estimated_speedup": 3.2,
    "draft_coverage": 1.0,
    "running_requests": 4.0,
    "step_latency": 0.02,
}

LONGER_PROMPTS = Shift(Feature.PROMPT_LENGTH, psi=0.9, noise=0.1, before=80, now=300)
SAME_PROMPTS = Shift(Feature.PROMPT_LENGTH, psi=0.02, noise=0.1, before=80, now=82)
LONGER_ANSWERS = Shift(Feature.FINISH_REASON, psi=2.0, noise=0.1, before=0.02, now=0.95)


def evidence(**values: Value) -> Evidence:
    return Evidence(Dialect.V1, HEALTHY | values, now=NOW, drift=calm(reference=0.85))


def fallen(to: float, **values: Value) -> Evidence:
    return replace(
        evidence(acceptance_rate=to, **values),
        drift=alarmed(reference=0.85, since=NOW - 600),
        workload=WorkloadReading(1.0, 200, (SAME_PROMPTS,)),
    )


def block(end: float, rate: float = 0.85, batch: float = 4.0, step: float = 0.02, drafted: bool = True) -> Block:
    """A minute that ended ``end`` seconds before NOW."""
    steps = batch * 60 / step
    counts = {
        Counter.DRAFTS: steps * drafted,
        Counter.DRAFT_TOKENS: 5 * steps * drafted,
        Counter.ACCEPTED_TOKENS: 5 * steps * rate * drafted,
        Counter.DECODE_STEPS: steps,
        Counter.DECODE_STEP_SECONDS: steps * step,
        Counter.RUNNING_SECONDS: batch * 60,
    }
    return Block(NOW - end - 60, NOW - end, Increments(60.0, counts, (steps * rate,) * 5))


def minutes(*rates: float, until: float = 0.0) -> tuple[Block, ...]:
    """Blocks in turn, the last one ending ``until`` seconds before NOW."""
    return tuple(block(until + 60.0 * back, rate) for back, rate in zip(range(len(rates))[::-1], rates, strict=True))


def first(found: Evidence) -> Finding:
    return diagnose(found)[0]


def codes(found: Evidence) -> list[str]:
    return [finding.code for finding in diagnose(found)]


def test_the_page_about_diagnosis_lists_every_finding():
    package = Path(diagnosis.__file__).parent
    code = re.compile(r'Finding\(\s*"([a-z0-9-]+)"')
    codes = {found for module in package.glob("*.py") for found in code.findall(module.read_text())}
    page = (ROOT / "docs" / "diagnosis.md").read_text()
    assert len(codes) > 20
    assert {found for found in codes if f"`{found}`" not in page} == set()


def test_a_healthy_server_is_called_so():
    assert codes(evidence()) == ["healthy"]


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
    assert codes(Evidence(dialect)) == [code]


def test_after_one_scrape_nothing_is_claimed():
    nothing = {"generation_throughput": None, "acceptance_rate": None, "estimated_speedup": None}
    assert [(f.code, f.level) for f in diagnose(Evidence(Dialect.V1, nothing))] == [("one-scrape", Level.NOTICE)]


def test_no_traffic_is_no_problem_and_no_judgement():
    findings = diagnose(Evidence(Dialect.V1, {"generation_throughput": 0.0}))
    assert [(f.code, f.level) for f in findings] == [("no-traffic", Level.NOTICE)]


def test_too_few_drafts_are_said_to_be_too_few():
    assert codes(Evidence(Dialect.V1, {"generation_throughput": 5.0, "draft_coverage": 1.0})) == ["too-little-traffic"]


def test_a_collapse_on_captured_pages_is_a_loss_and_that_it_is_low_says_nothing_new():
    increments = between("vllm-0.32.0-v1-draft_model-json", "vllm-0.32.0-v1-draft_model-es")
    findings = diagnose(Evidence(Dialect.V1, evaluate(signals(), [increments])))
    assert findings[0].code == "slower-than-none"
    assert "0.86" in findings[0].text
    assert "acceptance-low" not in {f.code for f in findings}


def test_acceptance_below_sixty_per_cent_alone_is_no_illness():
    findings = diagnose(evidence(acceptance_rate=0.45))
    assert [(f.code, f.level) for f in findings] == [("healthy", Level.OK), ("acceptance-low", Level.NOTICE)]


def test_problems_come_before_notices():
    found = replace(evidence(estimated_speedup=0.9, acceptance_rate=0.03), engines=4)
    assert codes(found) == ["slower-than-none", "several-engines"]


def test_the_old_engine_is_told_what_it_cannot_tell():
    assert "v0-engine" in codes(Evidence(Dialect.V0, {"generation_throughput": 5.0}))
    assert codes(Evidence(Dialect.V1_MIN, {"acceptance_rate": 0.9})) == ["healthy", "no-drafts-counter"]


def test_partly_drafted_traffic_gets_a_word():
    assert codes(evidence(draft_coverage=0.4)) == ["healthy", "partly-drafted"]


def test_an_estimate_of_drafted_steps_is_not_told_of_all_of_them():
    some, all_of_them = (diagnose(evidence(draft_coverage=share))[0].text for share in (0.05, 1.0))
    assert some.endswith("times the plain speed at most in the steps that it drafts.")
    assert all_of_them.endswith("times the plain speed at most.")


def test_with_new_prompts_a_fall_is_the_traffic():
    found = first(replace(fallen(0.4), workload=WorkloadReading(1.0, 200, (LONGER_PROMPTS,))))
    assert found.code == "traffic-changed"
    assert "85.0% to 40.0% 10 min ago" in found.text
    assert "80 → 300 tokens" in found.text
    assert "temperature" in found.remedy
    assert "lasts" not in found.text
    assert {figure.name for figure in found.evidence} >= {
        "reference",
        "now",
        "window",
        "changed_at",
        "prompt_length_psi",
    }


def test_a_change_of_domain_that_lasts_is_said_to_last():
    found = replace(fallen(0.4), workload=WorkloadReading(1.0, 200, (LONGER_PROMPTS,)))
    assert "lasts" in first(replace(found, drift=alarmed(reference=0.85, since=NOW - 3600))).text


def test_alone_and_with_the_same_prompts_both_reasons_are_left_open():
    found = first(fallen(0.4))
    assert found.code == "drifted"
    assert "cannot be told" in found.text


def test_acceptance_of_nothing_on_the_same_prompts_may_be_garbled_text():
    assert first(fallen(0.01)).code == "outputs-garbled"


def test_a_drift_of_two_points_is_a_notice():
    assert codes(fallen(0.83)) == ["healthy", "slightly-below-normal"]


def test_a_drift_that_may_be_of_two_points_is_a_notice():
    unsure = replace(alarmed(reference=0.85, since=NOW - 600), change=-0.05, change_low=-0.08, change_high=-0.02)
    assert codes(replace(fallen(0.79), drift=unsure)) == ["healthy", "slightly-below-normal"]


def test_while_prompts_are_not_known_nothing_is_said_of_them():
    found = first(replace(fallen(0.01), workload=WorkloadReading(0.5)))
    assert found.code == "drifted"
    assert "not known yet" in found.text


def test_acceptance_of_nothing_on_new_prompts_is_the_traffic():
    found = replace(fallen(0.01), workload=WorkloadReading(1.0, 200, (LONGER_PROMPTS,)))
    assert first(found).code == "traffic-changed"


def test_nearly_everything_accepted_and_long_answers_may_be_a_loop():
    loop = replace(evidence(acceptance_rate=0.98), workload=WorkloadReading(1.0, 200, (SAME_PROMPTS, LONGER_ANSWERS)))
    assert first(loop).code == "outputs-repeat"
    new_prompts = replace(loop, workload=WorkloadReading(1.0, 200, (LONGER_PROMPTS, LONGER_ANSWERS)))
    assert first(new_prompts).code == "healthy"
    assert first(replace(loop, workload=WorkloadReading(1.0, 200, (SAME_PROMPTS,)))).code == "healthy"


def test_a_fall_at_a_restart_is_the_deployment():
    deployment = Deployment(NOW - 600, ("vLLM 0.31.0 → 0.32.0",), minutes(*[0.85, 0.84] * 5, until=600))
    course = CourseView(minutes(*[0.5, 0.51] * 5), (deployment,))
    found = first(replace(fallen(0.5), course=course))
    assert found.code == "deploy-changed"
    assert "0.31.0 → 0.32.0" in found.text


def drafting(rates: tuple[float, ...], end: float) -> Block:
    """A minute with one acceptance rate a position."""
    drafts = 1000.0
    counts = {Counter.DRAFTS: drafts, Counter.DRAFT_TOKENS: drafts * len(rates), Counter.DECODE_STEPS: drafts}
    accepted = tuple(drafts * rate for rate in rates)
    counts[Counter.ACCEPTED_TOKENS] = sum(accepted)
    return Block(NOW - end - 60, NOW - end, Increments(60.0, counts, accepted[:FIRST_POSITIONS]))


def after_another_k(now: tuple[float, ...]) -> Evidence:
    """Nine minutes at K = 7 after nine at K = 3, accepted at 0.93, 0.86 and 0.80."""
    before = tuple(drafting((0.93 + i % 2 / 100, 0.86, 0.80), 540 + 60 * i) for i in range(9)[::-1])
    course = CourseView(
        tuple(drafting(now, 60 * i) for i in range(9)[::-1]), (Deployment(NOW - 540, ("K 3 → 7",), before),)
    )
    return replace(evidence(acceptance_rate=sum(now) / len(now), position_acceptance=now), course=course)


def test_a_worse_draft_deployed_with_another_k_is_seen_on_the_positions_that_both_have():
    found = first(after_another_k((0.85, 0.72, 0.62, 0.5, 0.4, 0.3, 0.2)))
    assert found.code == "deploy-changed"
    assert "the first 3 tokens of a draft" in found.text


def test_a_longer_k_alone_is_no_worse_draft():
    longer = after_another_k((0.93, 0.86, 0.80, 0.74, 0.69, 0.64, 0.60))
    assert "deploy-changed" not in codes(longer)


def test_a_restart_that_changed_nothing_is_no_deployment():
    deployment = Deployment(NOW - 600, (), minutes(*[0.85, 0.84] * 5, until=600))
    assert codes(replace(evidence(), course=CourseView(minutes(*[0.84, 0.85] * 5), (deployment,)))) == ["healthy"]


def test_what_a_deployment_lowered_and_what_came_back_is_over():
    deployment = Deployment(NOW - 3600, (), minutes(*[0.85, 0.84] * 5, until=3600))
    course = CourseView(minutes(*[0.5, 0.51] * 10, *[0.84, 0.85] * 20), (deployment,))
    assert codes(replace(evidence(), course=course)) == ["healthy"]


def test_a_day_after_a_deployment_its_level_is_the_normal():
    deployment = Deployment(NOW - 90_000, (), minutes(*[0.85, 0.84] * 5, until=90_000))
    course = CourseView(minutes(*[0.5, 0.51] * 30), (deployment,))
    assert codes(replace(evidence(acceptance_rate=0.65), drift=calm(0.65), course=course)) == ["healthy"]


def test_a_slow_course_without_a_drift_is_no_decay():
    rates = [0.85 - 0.005 * minute + 0.003 * (minute % 2) for minute in range(60)]
    course = CourseView(minutes(*rates), (Deployment(NOW - 3600, (), ()),))
    assert codes(replace(evidence(), course=course)) == ["healthy"]


def test_a_fall_long_after_a_restart_is_not_the_deployment():
    deployment = Deployment(NOW - 7200, (), minutes(*[0.85, 0.84] * 5, until=7200))
    course = CourseView(minutes(*[0.84, 0.85] * 55, *[0.4, 0.41] * 5), (deployment,))
    assert first(replace(fallen(0.4), course=course)).code == "drifted"


def test_a_decay_since_the_restart_is_named():
    rates = [0.85 - 0.005 * minute + 0.003 * (minute % 2) for minute in range(60)]
    course = CourseView(minutes(*rates), (Deployment(NOW - 3600, (), minutes(*[0.85, 0.84] * 5, until=3600)),))
    found = first(replace(fallen(0.55), course=course))
    assert found.code == "draft-decays"
    assert "since the restart 60 min ago" in found.text
    assert {figure.name: figure.value for figure in found.evidence}["per_hour"] == pytest.approx(-0.3, abs=0.02)


def test_longer_drafts_by_a_schedule_are_no_illness():
    before = tuple(
        replace(
            one,
            work=replace(
                one.work, counts=one.work.counts | {Counter.DRAFT_TOKENS: 3 * one.work.counts[Counter.DRAFTS]}
            ),
        )
        for one in minutes(*[0.85] * 20, until=600)
    )
    found = replace(fallen(0.6, position_acceptance=(0.85, 0.7, 0.6, 0.5, 0.35)), course=CourseView(before))
    assert codes(found)[:2] == ["healthy", "draft-length-changed"]


def test_a_known_schedule_that_stopped_drafting_is_no_problem():
    found = replace(evidence(draft_coverage=0.0, running_requests=12.0), schedule=((1, 8, 5), (9, 9, 0)))
    assert [(f.code, f.level) for f in diagnose(found)] == [("off-by-schedule", Level.NOTICE)]


def test_a_batch_beyond_a_known_schedule_is_off_by_it_though_some_steps_have_few_requests():
    found = replace(evidence(draft_coverage=0.05, running_requests=12.0), schedule=((1, 8, 5), (9, 9, 0)))
    assert codes(found) == ["off-by-schedule"]
    assert "off by its schedule in 95% of steps" in first(found).text
    assert codes(replace(found, schedule=())) == ["healthy", "partly-drafted"]
    within = replace(found, values=found.values | {"running_requests": 4.0})
    assert codes(within) == ["healthy", "partly-drafted"]


def test_a_schedule_does_not_excuse_silence_within_its_limit():
    found = replace(evidence(draft_coverage=0.0, running_requests=4.0), schedule=((1, 8, 5), (9, 9, 0)))
    assert first(found).code == "not-drafting"


def test_a_schedule_is_recognised_by_what_the_server_did_at_less_load():
    course = CourseView((*(block(60.0 * i + 600, batch=4) for i in range(8)), block(60, batch=12, drafted=False)))
    found = replace(evidence(draft_coverage=0.0, running_requests=12.0, acceptance_rate=None), course=course)
    assert first(found).code == "off-by-schedule"
    assert first(replace(found, values=found.values | {"running_requests": 4.0})).code == "not-drafting"


def test_steps_that_slow_down_with_load_take_speculation_past_its_break_even():
    """At 4 requests a step reads weights; at 96 it computes 576 tokens where a plain step would compute 96."""
    course = CourseView(tuple(block(60.0 * i, batch=4, step=0.0215) for i in range(1, 20)))
    loaded: dict[str, Value] = {"running_requests": 96.0, "step_latency": 0.131, "acceptance_rate": 0.3}
    found = replace(evidence(**loaded, acceptance_length=2.5), course=course, drift=calm(reference=0.3))
    assert first(found).code == "load-past-break-even"
    assert "96 requests run at once instead of 4" in first(found).text


def test_load_that_leaves_steps_as_fast_as_before_is_no_problem():
    course = CourseView(tuple(block(60.0 * i, batch=4) for i in range(1, 20)))
    assert codes(replace(evidence(running_requests=12.0), course=course)) == ["healthy"]


def test_a_calibrated_loss_under_load_needs_no_estimate():
    course = CourseView(tuple(block(60.0 * i, batch=4) for i in range(1, 20)))
    speedup = Speedup(0.82, 0.8, 0.84, SpeedupKind.CALIBRATED, "a calibration", break_even_acceptance=0.9)
    found = replace(evidence(running_requests=32.0), course=course, speedup=speedup)
    assert first(found).code == "load-past-break-even"
    assert "calibrated" in first(found).text
    assert "slower-than-none" not in codes(found)
    assert first(replace(found, values=found.values | {"running_requests": 4.0})).code == "slower-than-none"


def test_last_positions_that_are_hardly_accepted_name_a_better_k():
    found = first(
        evidence(
            acceptance_rate=0.25,
            draft_length=5.0,
            position_acceptance=(0.75, 0.45, 0.02, 0.01, 0.01),
            estimated_speedup=2.24 / 1.25,
        )
    )
    assert found.code == "k-too-long"
    assert "Use K = 2" in found.text


def test_last_positions_that_still_pay_are_left_alone():
    assert codes(evidence(position_acceptance=(0.7, 0.49, 0.34, 0.24, 0.17))) == ["healthy"]
