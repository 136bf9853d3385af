"""The tests of losslessness: exact where they can be, and right about samplers that are known."""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import verify_samplers
from specwatch.measure.losslessness import (
    FEATURES,
    LARGEST_VOCABULARY,
    GreedyTest,
    Limits,
    SampledTest,
    Scored,
    Verdict,
)

LIMITS = Limits()


def reading(temperature, sampler, tokens=1000, listed=20, seed=1):
    test = SampledTest(temperature)
    model = verify_samplers.model(temperature)
    for token in verify_samplers.text(model, sampler, tokens, listed, random.Random(seed)):
        test.take(token)
    return test.reading(LIMITS)


def every_token(logprobs, listed):
    """Each token of a vocabulary, scored with so many listed."""
    return [
        Scored(value, logprobs[:listed], place < listed, listed >= len(logprobs))
        for place, value in enumerate(logprobs)
    ]


def normalised(raw):
    ordered = sorted(raw, reverse=True)
    total = math.log(sum(map(math.exp, ordered)))
    return tuple(value - total for value in ordered)


vocabularies = st.lists(st.floats(-30, 0), min_size=2, max_size=40).map(normalised)


@settings(max_examples=30)
@given(vocabularies, st.integers(1, 40), st.sampled_from([0.1, 0.3, 0.7, 1.0, 1.5, 2.0]))
def test_the_mean_likelihood_ratio_of_a_lossless_token_is_never_above_1(logprobs, listed, temperature):
    weights = [math.exp((value - logprobs[0]) / temperature) for value in logprobs]
    mean = 0.0
    for token, weight in zip(every_token(logprobs, listed), weights, strict=True):
        test = SampledTest(temperature)
        test.take(token)
        mean += weight / sum(weights) * math.exp(test.log_ratio)
    assert mean <= 1 + 1e-6
    if listed >= len(logprobs):
        assert mean == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=30)
@given(st.lists(st.floats(-3, 0), min_size=2, max_size=40).map(normalised), st.integers(1, 40))
def test_at_temperature_1_evidence_is_lost_to_rounding_alone(logprobs, listed):
    mean = 0.0
    for token in every_token(logprobs, listed):
        test = SampledTest(1.0)
        test.take(token)
        mean += math.exp(token.logprob + test.log_ratio)
    assert mean == pytest.approx(1.0, abs=1e-4)


def test_a_tail_below_the_rounding_of_the_scores_is_no_evidence():
    # Eight equal tokens and two of 10^-12: what the listed nine leave to the tenth is rounding in any precision.
    logprobs = normalised([0.0] * 8 + [-26.0, -27.0])
    mean = 0.0
    for token in every_token(logprobs, listed=9):
        rounded = replace(token, top=tuple(array("f", token.top)))
        test = SampledTest(1.0)
        test.take(rounded)
        mean += math.exp(token.logprob + test.log_ratio)
    assert mean <= 1 + 1e-6


@settings(max_examples=30)
@given(vocabularies, st.integers(1, 40), st.sampled_from([0.3, 0.7, 1.0, 1.5]))
def test_expected_figures_are_the_models_own_within_the_truncation_that_is_told(logprobs, listed, temperature):
    weights = [math.exp((value - logprobs[0]) / temperature) for value in logprobs]
    means = dict.fromkeys(FEATURES, 0.0)
    for token, weight in zip(every_token(logprobs, listed), weights, strict=True):
        test = SampledTest(temperature)
        test.take(token)
        checks = test.reading(LIMITS).checks
        for check in checks:
            means[check.name] += weight / sum(weights) * check.observed
    for check in checks:
        assert abs(means[check.name] - check.expected) <= check.truncation + 1e-6


def test_with_the_whole_vocabulary_the_expected_surprise_is_the_entropy():
    logprobs = normalised([0.0, -1.0, -2.0, -2.5])
    test = SampledTest(0.5)
    test.take(Scored(logprobs[2], logprobs, True, True))
    weights = [math.exp(2 * value) for value in logprobs]
    p = [weight / sum(weights) for weight in weights]
    surprise, likeliest, sure, unlikely = test.reading(LIMITS).checks
    entropy = -sum(share * math.log(share) for share in p)
    assert surprise.expected == pytest.approx(entropy)
    assert surprise.observed == pytest.approx(-math.log(p[2]))
    variance = sum(share * (-math.log(share) - entropy) ** 2 for share in p)
    assert surprise.z == pytest.approx((-math.log(p[2]) - entropy) / math.sqrt(variance))
    assert (likeliest.observed, likeliest.expected) == (0.0, pytest.approx(p[0]))
    assert sure.observed == likeliest.observed
    # The likeliest has 86 % and the second 12 %: those two are the fewest with 90 %.
    assert (unlikely.observed, unlikely.expected) == (1.0, pytest.approx(p[2] + p[3]))


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0])
def test_lossless_speculation_is_sound(temperature):
    found = reading(temperature, verify_samplers.lossless)
    assert found.verdict is Verdict.SOUND
    assert found.evidence < 1


def test_with_the_whole_vocabulary_listed_nothing_is_left_open():
    found = reading(0.7, verify_samplers.lossless, tokens=300, listed=verify_samplers.VOCABULARY)
    assert found.verdict is not Verdict.DISTORTED
    assert all(check.truncation == 0 for check in found.checks)


@pytest.mark.parametrize(
    "sampler",
    [
        verify_samplers.garbage(0.05),
        verify_samplers.without_residual(1.0),
        verify_samplers.at_temperature(1.25),
        verify_samplers.at_temperature(0.8),
        verify_samplers.trusting(0.5),
        verify_samplers.polarised(0.5),
    ],
    ids=["garbage", "without residual", "too hot", "too cold", "trusting", "polarised"],
)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_distortions_are_found_within_two_thousand_tokens(sampler, temperature):
    assert reading(temperature, sampler, tokens=2000).verdict is Verdict.DISTORTED


def test_garbage_is_found_within_a_few_tokens():
    assert reading(1.0, verify_samplers.garbage(1.0), tokens=10).verdict is Verdict.DISTORTED


def test_what_leaves_the_mean_surprise_unchanged_is_seen_by_the_share_of_likeliest_tokens():
    found = reading(1.0, verify_samplers.polarised(0.5), tokens=2000)
    surprise, likeliest, *_ = found.checks
    assert abs(surprise.z) < 4 < abs(likeliest.z)


def test_too_few_tokens_are_inconclusive_and_say_how_many_more_it_takes():
    few = reading(1.0, verify_samplers.lossless, tokens=200)
    assert few.verdict is Verdict.INCONCLUSIVE
    assert 100 < few.more_tokens < 1500
    assert reading(1.0, verify_samplers.lossless, tokens=200 + few.more_tokens).verdict is Verdict.SOUND


def test_nothing_at_all_is_inconclusive():
    for test in (SampledTest(1.0), GreedyTest()):
        assert test.reading(LIMITS).verdict is Verdict.INCONCLUSIVE
        assert test.reading(LIMITS).more_tokens > 0


def test_a_list_that_leaves_most_of_a_hot_distribution_out_cannot_tell_with_any_number_of_tokens():
    found = reading(2.0, verify_samplers.lossless, listed=2)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.more_tokens is None


def test_a_sound_verdict_excludes_a_change_of_the_size_that_was_asked_for():
    found = reading(1.0, verify_samplers.lossless)
    likeliest = found.checks[1]
    assert abs(likeliest.observed - likeliest.expected) + likeliest.excluded <= LIMITS.resolution


def test_more_tests_at_once_each_need_more_evidence():
    assert Limits(tests=3).bar == pytest.approx(LIMITS.bar + math.log(3))


@pytest.mark.parametrize("temperature", [0.01, 0.3, 2.0])
def test_extreme_scores_are_no_obstacle(temperature):
    test = SampledTest(temperature)
    certain = Scored(0.0, (0.0, -9999.0, -9999.0), True, True)
    hopeless = Scored(-9999.0, (0.0, -50.0), False)
    for token in (certain, hopeless, Scored(-0.1, (-0.1,), True)):
        test.take(token)
    found = test.reading(LIMITS)
    assert math.isfinite(found.evidence)
    assert all(math.isfinite(check.z) for check in found.checks)


def test_tokens_that_are_certain_are_no_evidence_of_anything():
    test = SampledTest(1.0)
    for _ in range(500):
        test.take(Scored(0.0, (0.0, -9999.0), True, True))
    assert test.log_ratio == pytest.approx(0.0)
    assert test.reading(LIMITS).verdict is Verdict.SOUND


def greedy(*tokens):
    test = GreedyTest()
    for token in tokens:
        test.take(token)
    return test.reading(LIMITS)


def test_at_temperature_0_a_token_that_is_not_the_likeliest_is_distortion():
    good, off = Scored(-0.1, (-0.1, -3.0), True), Scored(-3.0, (-0.1, -3.0), True)
    assert greedy(*[good] * 100).verdict is Verdict.SOUND
    found = greedy(*[good] * 99, off)
    assert (found.verdict, found.off, found.worst) == (Verdict.DISTORTED, 1, pytest.approx(2.9))


def test_at_temperature_0_near_ties_are_allowed_and_counted():
    good, lost = Scored(-0.6, (-0.6, -0.8), True), Scored(-0.8, (-0.6, -0.8), True)
    found = greedy(*[good] * 90, *[lost] * 10)
    assert (found.verdict, found.near_ties, found.ties, found.off) == (Verdict.SOUND, 10, 100, 0)


def test_at_temperature_0_equal_scores_are_both_the_likeliest():
    found = greedy(*[Scored(-0.7, (-0.7, -0.7), False)] * 100)
    assert (found.verdict, found.near_ties, found.ties) == (Verdict.SOUND, 0, 100)


def test_at_temperature_0_few_tokens_exclude_little():
    found = greedy(*[Scored(-0.1, (-0.1, -3.0), True)] * 20)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.more_tokens == 50
    assert found.off_at_most == pytest.approx(LIMITS.bar / 20)


def test_the_vocabulary_that_is_assumed_is_larger_than_any_model_has():
    assert LARGEST_VOCABULARY > 262_144  # Gemma's
