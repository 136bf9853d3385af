from __future__ import annotations

import random

import pytest

from specwatch.signals.drift_reference import Block, Reference


def blocks(number: int, shared: float) -> list[Block]:
    """Blocks around 0.5 that each take over a share of what the one before strayed by."""
    rng, strayed, found = random.Random(5), 0.0, []
    for _ in range(number):
        strayed = shared * strayed + rng.gauss(0, 0.05)
        found.append(Block(1000.0, 1000.0 * (0.5 + strayed)))
    return found


def taught(some: list[Block], following: Reference | None = None) -> Reference:
    reference = Reference(following)
    for block in some:
        reference.learn(block)
    return reference


def test_what_blocks_share_with_their_neighbours_is_the_same_whatever_portions_it_was_learned_in():
    some = blocks(2000, shared=0.5)
    whole, portion = Reference(), Reference()
    for begin in range(0, len(some), 20):
        portion = taught(some[begin : begin + 20], following=portion)
        whole.merge(portion)
    assert whole.correlation == pytest.approx(taught(some).correlation)
    assert whole.dispersion == pytest.approx(taught(some).dispersion)


def test_dispersion_counts_what_neighbours_share():
    # Variance 0.05² / (1 - 0.5²) over the binomial 0.25 / 1000; correlation 1 + 2 · (0.5 + 0.25 + ...), four lags.
    reference = taught(blocks(20_000, shared=0.5))
    assert reference.correlation == pytest.approx(1 + 2 * (0.5 + 0.25 + 0.125 + 0.0625), rel=0.05)
    assert reference.dispersion == pytest.approx(0.0025 / 0.75 * 4000 * reference.correlation, rel=0.05)


def test_independent_blocks_share_nothing():
    assert taught(blocks(2000, shared=0.0)).correlation == pytest.approx(1.0, abs=0.1)


def test_dispersion_weighs_blocks_by_what_they_hold():
    rng = random.Random(2)
    some = []
    for _ in range(4000):
        # Long requests: ten times the tokens, and their mean strays as far as that of short ones.
        tokens = rng.choice([100.0, 1000.0])
        some.append(Block(tokens, tokens * (0.5 + rng.gauss(0, 0.1))))
    # The sum of a window strays by Σ (0.1·N)² over Σ N / 4.
    assert taught(some).dispersion == pytest.approx(0.01 * (100**2 + 1000**2) / (1100 * 0.25), rel=0.1)


def test_a_reference_goes_on_from_its_state():
    reference = taught(blocks(50, shared=0.5))
    again = Reference.restore(reference.state())
    more = blocks(30, shared=0.5)
    for each in (reference, again):
        for block in more:
            each.learn(block)
    assert again.state() == reference.state()


def test_a_moved_reference_has_another_rate_and_the_same_dispersion():
    reference = taught(blocks(500, shared=0.5))
    before, binomial = reference.dispersion, reference.rate * (1 - reference.rate)
    reference.move(0.4)
    assert reference.rate == pytest.approx(0.4)
    assert reference.dispersion * 0.4 * 0.6 == pytest.approx(before * binomial)
