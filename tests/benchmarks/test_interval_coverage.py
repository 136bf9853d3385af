"""The study's machinery on one case: the whole table is ``python -m benchmarks.interval_coverage``."""

from __future__ import annotations

import pytest

from benchmarks import interval_coverage
from benchmarks.interval_coverage import CASES, Case, judge, judge_recorded, simulate
from specwatch.lab.scenario import Domain
from specwatch.vllm.metrics import Counter

QUICK = Case("short answers", Domain("quick", acceptance=0.8, output_tokens=100, max_tokens=300), slots=3)


def test_what_is_simulated_keeps_the_counters_identities():
    page = simulate(QUICK, 600.0, seed=1).page(-1)
    assert page.counters[Counter.ACCEPTED_TOKENS] == sum(page.accepted_per_position)
    assert page.counters[Counter.DRAFTS] == pytest.approx(3 * 600 / interval_coverage.STEP_SECONDS, rel=0.02)
    rates = [accepted / page.counters[Counter.DRAFTS] for accepted in page.accepted_per_position]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(0.8, abs=0.05)


def test_most_intervals_hold_the_truth_and_independent_tokens_would_make_them_far_too_narrow(monkeypatch):
    monkeypatch.setattr(interval_coverage, "TRUTH_SECONDS", 60_000.0)
    scores = judge(QUICK, runs=2, seconds=3600.0)
    score = scores[60.0, "rate"]
    assert score.told == score.asked >= 50
    assert score.held / score.told >= 0.85  # three deviations below 95 % of 60
    tokens = 60 / interval_coverage.STEP_SECONDS * 3 * QUICK.k
    assert score.width / score.told > 2 * 2 * 1.96 * (0.25 / tokens) ** 0.5


def test_intervals_hold_on_a_real_server_s_readings():
    scores = judge_recorded(runs=2, seconds=3600.0)
    score = scores[60.0, "rate"]
    assert score.told == score.asked >= 50
    assert score.held / score.told >= 0.85


def test_cases_are_told_apart_by_name():
    assert len({case.name for case in CASES}) == len(CASES)
