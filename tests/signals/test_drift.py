from __future__ import annotations

import random

import pytest

from specwatch.signals.drift import CEILING, DriftDetector, DriftReading, DriftSettings

BLOCK = 15.0
K = 5


def block_counts(rng: random.Random, alpha: float, requests: int = 6, drafts_each: int = 40) -> tuple[int, int]:
    """Drafts and accepted tokens of one block: every request has an acceptance of its own (beta, 20 pseudo-counts)."""
    accepted = 0
    for _ in range(requests):
        own = rng.betavariate(20 * alpha, 20 * (1 - alpha))
        for _ in range(drafts_each):
            for _ in range(K):
                if rng.random() > own:
                    break
                accepted += 1
    return requests * drafts_each, accepted


def feed(
    detector: DriftDetector, rng: random.Random, alpha: float, blocks: int, start: float = 0.0
) -> list[DriftReading]:
    readings = []
    for i in range(blocks):
        drafts, accepted = block_counts(rng, alpha)
        readings.append(detector.update(start + (i + 1) * BLOCK, BLOCK, drafts, drafts * K, accepted, regime=K))
    return readings


@pytest.fixture
def learned() -> tuple[DriftDetector, random.Random]:
    detector, rng = DriftDetector(), random.Random(7)
    feed(detector, rng, alpha=0.8, blocks=40)
    return detector, rng


def test_while_learning_there_is_no_score():
    readings = feed(DriftDetector(), random.Random(1), alpha=0.8, blocks=39)
    assert all(reading.score is None for reading in readings)
    assert readings[-1].learned == pytest.approx(39 / 40)


def test_the_reference_is_the_pooled_rate(learned):
    detector, _ = learned
    # alpha = 0.8 at K = 5 gives r = sum of 0.8^i over i = 1..5, divided by 5; request spread lifts it a little.
    assert detector.reading().reference == pytest.approx(0.54, abs=0.05)


def test_steady_traffic_raises_no_alarm_for_a_day(learned):
    detector, rng = learned
    readings = feed(detector, rng, alpha=0.8, blocks=24 * 240 // 4)
    assert max(reading.score or 0.0 for reading in readings) < 1.0


def test_a_change_of_domain_is_found_and_dated(learned):
    detector, rng = learned
    before = feed(detector, rng, alpha=0.8, blocks=20, start=600)
    after = feed(detector, rng, alpha=0.5, blocks=20, start=900)
    assert not any(reading.alarmed for reading in before)
    first = next(i for i, reading in enumerate(after) if reading.alarmed)
    assert first < 10
    assert after[first].since == pytest.approx(900, abs=10 * BLOCK)


def test_a_rise_is_no_alarm(learned):
    detector, rng = learned
    assert not any(reading.alarmed for reading in feed(detector, rng, alpha=0.95, blocks=100))


def test_the_alarm_ends_when_normal_traffic_returns(learned):
    detector, rng = learned
    feed(detector, rng, alpha=0.3, blocks=50)
    assert detector.reading().score == pytest.approx(CEILING)
    assert not feed(detector, rng, alpha=0.8, blocks=40)[-1].alarmed


def test_another_k_starts_a_new_reference_instead_of_an_alarm(learned):
    detector, rng = learned
    drafts, accepted = block_counts(rng, 0.3)
    reading = detector.update(5_000, BLOCK, drafts, drafts * 3, accepted, regime=3)
    assert (reading.score, reading.reference) == (None, None)


def test_quiet_times_neither_alarm_nor_forget(learned):
    detector, _ = learned
    before = detector.reading()
    for i in range(1000):
        detector.update(600 + i * BLOCK, BLOCK, drafts=0, draft_tokens=0, accepted=0, regime=K)
    assert detector.reading() == before


def test_scattered_traffic_is_gathered_until_a_block_is_worth_judging():
    detector = DriftDetector(DriftSettings(learn_blocks=2))
    for i in range(19):
        detector.update(i, 5.0, drafts=2, draft_tokens=10, accepted=8, regime=K)
    assert detector.reading().learned == 0.5


@pytest.mark.parametrize("accepted", [0, 1000])
def test_a_reference_of_nothing_or_everything_accepted_is_no_division_by_zero(accepted: int):
    detector = DriftDetector(DriftSettings(learn_blocks=2))
    for i in range(5):
        reading = detector.update(i * BLOCK, BLOCK, drafts=200, draft_tokens=1000, accepted=accepted, regime=K)
    assert reading.score == 0.0
    collapse = detector.update(100.0, BLOCK, drafts=200, draft_tokens=1000, accepted=0, regime=K)
    assert collapse.alarmed is (accepted == 1000)
