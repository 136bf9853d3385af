"""The benchmark of drift: its traffic, its bound, and one run through everything."""

from __future__ import annotations

import math
import random
from multiprocessing.dummy import Pool

import numpy as np
import pytest
from scipy.special import betaln, digamma

from benchmarks.drift import SMOKE, measure
from benchmarks.drift_bound import bound_after_learning, information
from benchmarks.drift_contenders import Rule
from benchmarks.drift_report import BEGIN, END, draw, report, write
from benchmarks.drift_scenarios import SIX, USUAL, Step, healthy, recorded, trial
from benchmarks.drift_traces import DAY, Kind, counts, rate, requests, with_rate
from specwatch.lab.scenario import Domain


def lab_request(domain: Domain, k: int, source: random.Random) -> tuple[int, int]:
    """Drafts and accepted tokens of one request, as ``specwatch.lab.simulated_engine`` counts them."""
    survival = domain.survival(k, source)
    left = max(1, min(round(source.expovariate(1 / domain.output_tokens)), domain.max_tokens)) - 1
    drafts = accepted = 0
    while left > 0:
        drawn = source.random()
        taken = sum(drawn < reached for reached in survival)
        drafts, accepted, left = drafts + 1, accepted + taken, left - 1 - taken
    return drafts, accepted


@pytest.mark.parametrize("alpha", [0.5, 0.8, 0.95])
def test_requests_follow_the_law_of_the_lab(alpha: float):
    source, number = random.Random(1), 3000
    lab = np.array([lab_request(Domain("lab", alpha), USUAL.k, source) for _ in range(number)])
    ours = np.array(requests(np.random.default_rng(1), Kind(alpha=alpha), number)).T
    error = np.sqrt((lab.var(axis=0) + ours.var(axis=0)) / number)
    assert np.all(np.abs(lab.mean(axis=0) - ours.mean(axis=0)) < 4 * error)
    assert lab.std(axis=0) == pytest.approx(ours.std(axis=0), rel=0.1)


def test_an_interval_strays_as_the_reference_simulation_says():
    day = counts(np.random.default_rng(2), USUAL, np.full(DAY, 6.0), np.full(DAY, USUAL.alpha))
    pooled = day.accepted.sum() / day.draft_tokens.sum()
    some = day.drafts > 0
    strayed = (day.accepted - pooled * day.draft_tokens)[some] ** 2 / day.draft_tokens[some]
    assert strayed.mean() / (pooled * (1 - pooled)) == pytest.approx(29, rel=0.15)


def test_traffic_of_a_wanted_rate_has_it():
    assert rate(with_rate(USUAL, 0.45)) == pytest.approx(0.45, abs=0.005)


def test_a_trial_changes_by_as_many_points_as_it_says():
    counted, change = trial(Step(0.2, longest=4000), seed=1)
    sums = [(c[:change].sum(), c[change:].sum()) for c in (counted.accepted, counted.draft_tokens)]
    before, after = (sums[0][i] / sums[1][i] for i in range(2))
    assert before - after == pytest.approx(0.2, abs=0.03)


def test_a_healthy_month_holds_quiet_nights_and_both_k():
    month = healthy(seed=1, days=3)
    assert set(month.k) == {3, 5}
    assert np.mean(month.drafts < 30) > 0.1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_information_adds_up_with_the_load_and_grows_with_the_size_of_the_change():
    small, large = (with_rate(USUAL, rate(USUAL) - points) for points in (0.05, 0.1))
    assert information(USUAL, small, 12.0) == pytest.approx(2 * information(USUAL, small, 6.0), rel=0.1)
    assert information(USUAL, large, 6.0) > 3 * information(USUAL, small, 6.0)


def test_the_plain_rule_waits_its_five_minutes_and_fires_once():
    rule = Rule(0.60)
    assert [rule.update(10, 50, 20) for _ in range(100)].index(True) == 19
    assert not any(rule.update(10, 50, 20) for _ in range(100))


def test_the_recorded_trace_falls_and_comes_back():
    domains, counted = recorded()
    by_domain = {
        domain: sum(a for a, d in zip(counted.accepted, domains, strict=True) if d == domain)
        / sum(n for n, d in zip(counted.draft_tokens, domains, strict=True) if d == domain)
        for domain in set(domains)
    }
    assert by_domain["json"] > by_domain["mixed"] + 0.1 > by_domain["es"] + 0.2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interval_with_one_request_tells_no_more_than_that_requests_own_acceptance_would():
    small = with_rate(USUAL, rate(USUAL) - 0.05)
    (a, b), (a_then, b_then) = ((k.alpha * k.concentration, (1 - k.alpha) * k.concentration) for k in (USUAL, small))
    a_request = betaln(a, b) - betaln(a_then, b_then) + (a_then - a) * (digamma(a_then) - digamma(b_then))
    assert 0.5 * a_request < information(USUAL, small, 0.1) / 0.1 < a_request


def test_a_bound_with_a_learned_reference_grows_without_end_as_less_was_learned():
    assert bound_after_learning(100.0, learned=1e9) == pytest.approx(100.0)
    assert bound_after_learning(100.0, learned=200.0) == pytest.approx(200.0)
    assert bound_after_learning(100.0, learned=100.0) == math.inf


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_everything_runs_from_traffic_to_page_and_figure(tmp_path):
    with Pool(1) as pool:
        results = measure(pool, SMOKE)
    page, figure = tmp_path / "drift.md", tmp_path / "drift.png"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(report(results), page)
    draw(results, figure)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert all(f"| {name} |" in text for name in results.judged[SIX])
    assert figure.stat().st_size > 10_000
