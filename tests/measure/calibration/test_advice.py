"""From runs at known costs to cells, costs, crossovers and advice: the known costs come back."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from specwatch.measure.calibration.advice import (
    Advice,
    Pooled,
    advice,
    cost_points,
    crossover,
    crossovers,
    pooled,
    step_costs,
)
from specwatch.measure.calibration.blocks import Block, Cell, Design
from specwatch.measure.calibration.cells import Texts, measured_cells, parting
from specwatch.measure.calibration.runs import Kept
from specwatch.measure.calibration.stats import Estimate
from specwatch.measure.prompt_sets import PromptSet
from specwatch.signals.cost import CostCurve
from tests.support.runs import PLAIN_STEP, runs_of

DESIGN = Design(
    domains=(PromptSet("home", ("a",)), PromptSet("away", ("b",))),
    ks=(3, 5),
    max_concurrency=16,
    repetitions=4,
    max_tokens=129,
)
EQUAL = {"home": 0.5, "away": 0.5}
C, LENGTHS = 0.06, {("home", 3): 3.0, ("home", 5): 4.0, ("away", 3): 1.1, ("away", 5): 1.15}


def verify(concurrency: int) -> float:
    """Cost of verifying: free for one request, twice a plain step at 16."""
    return 1 + math.log2(concurrency) / 4


def law(block: Block) -> tuple[float, float]:
    """A machine where all of that holds exactly."""
    plain = PLAIN_STEP * (1 + block.cell.concurrency / 50)
    if block.k == 0:
        return plain, 1.0
    step = plain * (verify(block.cell.concurrency) + C * block.k)
    return step, LENGTHS[block.cell.domain, block.k]


def noisy(sigma: float, seed: int = 1):
    """The same, with repetitions in which the machine is slow for all, and noise of every block."""
    source = random.Random(seed)
    slow = {repetition: math.exp(source.gauss(0, 0.5)) for repetition in range(DESIGN.repetitions)}

    def disturbed(block: Block) -> tuple[float, float]:
        step, length = law(block)
        return step * slow[block.repetition] * math.exp(source.gauss(0, sigma)), length

    return disturbed


def expected(domain: str, k: int, concurrency: int) -> float:
    return LENGTHS[domain, k] / (verify(concurrency) + C * k)


def test_the_speedup_of_a_cell_is_that_of_the_machine():
    for cell in measured_cells(DESIGN, runs_of(DESIGN, law)):
        assert cell.speedup.value == pytest.approx(expected(cell.cell.domain, cell.k, cell.cell.concurrency))


def test_a_machine_that_is_slow_for_both_servers_moves_no_speedup():
    cells = measured_cells(DESIGN, runs_of(DESIGN, noisy(0.0)))
    assert [c.speedup.value for c in cells] == pytest.approx(
        [expected(c.cell.domain, c.k, c.cell.concurrency) for c in cells]
    )
    assert all(cell.speedup.high / cell.speedup.low < 1.0001 for cell in cells)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = total = 0
    for seed in range(25):
        for cell in measured_cells(DESIGN, runs_of(DESIGN, noisy(0.1, seed))):
            truth = expected(cell.cell.domain, cell.k, cell.cell.concurrency)
            held += cell.speedup.low <= truth <= cell.speedup.high
            total += 1
    assert held / total == pytest.approx(0.95, abs=0.03)


def test_two_calibrations_agree_within_their_intervals():
    one, other = (measured_cells(DESIGN, runs_of(DESIGN, noisy(0.05, seed))) for seed in (1, 2))
    both = [(a.speedup, b.speedup) for a, b in zip(one, other, strict=True)]
    apart = [(a, b) for a, b in both if a.high < b.low or b.high < a.low]
    assert not apart


def test_acceptance_comes_from_the_counters():
    (cell, *_) = measured_cells(DESIGN, runs_of(DESIGN, law))
    assert (cell.k, cell.mean_k, cell.acceptance_length) == (3, pytest.approx(3), pytest.approx(3.0))
    assert cell.acceptance_by_position == pytest.approx((2 / 3,) * 3)


def test_c_and_v_come_back_from_two_k():
    found = step_costs(DESIGN, cost_points(DESIGN, runs_of(DESIGN, noisy(0.0))))
    assert [cost.concurrency for cost in found] == [1, 2, 4, 8, 16]
    for cost in found:
        assert cost.draft == pytest.approx(C)
        assert cost.verify == pytest.approx(verify(cost.concurrency))


def test_with_one_k_verifying_a_single_request_is_taken_as_free():
    design = dataclasses.replace(DESIGN, ks=(5,))
    found = step_costs(design, cost_points(design, runs_of(design, law)))
    assert found[0].verify == pytest.approx(1.0)
    assert found[0].draft == pytest.approx(C)
    assert found[-1].verify == pytest.approx(verify(16))


def test_costs_and_acceptance_give_the_measured_speedup_again():
    runs = runs_of(DESIGN, noisy(0.0))
    curve = CostCurve.of(cost_points(DESIGN, runs))
    for cell in measured_cells(DESIGN, runs):
        ratio = curve.ratio(cell.k, cell.cell.concurrency)
        assert cell.acceptance_length / ratio == pytest.approx(cell.speedup.value, rel=1e-6)


def test_servers_that_do_not_time_their_steps_have_no_costs():
    runs = {block: dataclasses.replace(run, counts={}) for block, run in runs_of(DESIGN, law).items()}
    assert cost_points(DESIGN, runs) == []
    assert step_costs(DESIGN, []) == []


@pytest.mark.parametrize(
    ("speedups", "where"),
    [
        ([(1, 2.0), (2, 1.5), (4, 1.1)], None),
        ([(1, 0.9), (2, 0.8)], 1),
        ([(1, 2.0), (2, 1.5), (4, 0.6)], 3),  # 2 · 2^(log 1.5 / log 2.5) is 2.7
        ([(1, 2.0), (16, 0.4)], 4),  # 16^(log 2 / log 5) is 3.3
        ([(1, 0.9), (2, 1.1), (4, 0.9)], 3),
        ([(1, 0.9), (2, 1.1)], None),
        ([(1, 1.0), (2, 0.9)], 2),
    ],
)
def test_the_crossover_is_where_speculation_turns_slower_for_good(speedups, where):
    assert crossover(speedups) == where


def test_every_domain_has_its_crossover():
    cells = measured_cells(DESIGN, runs_of(DESIGN, law))
    found = {(each.k, each.domain): each.concurrency for each in crossovers(DESIGN, cells)}
    assert found == {(3, "home"): None, (3, "away"): 1, (5, "home"): None, (5, "away"): 1}


def test_mixed_traffic_is_as_slow_as_its_tokens_take_together():
    shares = {"home": 0.75, "away": 0.25}
    for each in pooled(DESIGN, runs_of(DESIGN, law), shares):
        seconds = [share / expected(name, each.k, each.concurrency) for name, share in shares.items()]
        assert each.speedup.value == pytest.approx(1 / sum(seconds))


def advised(*speedups: dict[int, Estimate]) -> Advice:
    """The advice for K and speedups at concurrency 1, 2, 4 and so on."""
    design = dataclasses.replace(DESIGN, max_concurrency=2 ** (len(speedups) - 1))
    pools = [Pooled(k, 2**place, each) for place, by_k in enumerate(speedups) for k, each in by_k.items()]
    return advice(design, pools)


def sure(value: float) -> Estimate:
    return Estimate(value, value * 0.98, value * 1.02)


def test_the_schedule_takes_the_best_k_at_each_load_and_none_where_none_pays():
    found = advised(
        {3: sure(1.5), 5: sure(1.8)},
        {3: sure(1.4), 5: sure(1.5)},
        {3: sure(1.2), 5: sure(1.1)},
        {3: sure(0.9), 5: sure(0.8)},
    )
    assert found == Advice(5, ((1, 2, 5), (3, 4, 3), (5, 8, 0)))


def test_a_gain_that_may_be_none_is_not_recommended():
    assert advised({3: Estimate(1.2, 0.9, 1.6), 5: Estimate(1.1, 1.02, 1.2)}) == Advice(5, ((1, 1, 5),))
    assert advised({3: Estimate(1.2, 0.9, 1.6), 5: Estimate(1.3, 0.8, 1.9)}) == Advice(0, ((1, 1, 0),))


def test_a_load_that_nobody_knows_of_follows_the_next_larger_one():
    unknown = {3: Estimate(1.1, 0.8, 1.5), 5: Estimate(1.2, 0.9, 1.6)}
    slower = {3: sure(0.8), 5: sure(0.7)}
    faster = {3: sure(1.5), 5: sure(1.4)}
    assert advised(unknown, faster) == Advice(3, ((1, 2, 3),))
    assert advised(faster, unknown) == Advice(3, ((1, 1, 3), (2, 2, 0)))
    assert advised(slower, faster) == Advice(3, ((1, 1, 0), (2, 2, 3)))
    assert advised({3: sure(0.8), 5: unknown[5]}, faster) == Advice(3, ((1, 1, 0), (2, 2, 3)))


@pytest.mark.parametrize("home", [0.4, 0.6, 0.8, 1.0])
def test_the_schedule_is_nowhere_much_slower_than_the_better_of_always_and_never(home):
    shares = {"home": home, "away": 1 - home}
    sigma = 0.05
    for seed in range(10):
        found = advice(DESIGN, pooled(DESIGN, runs_of(DESIGN, noisy(sigma, seed)), shares))
        for concurrency in DESIGN.ladder:
            truth = {k: 1 / sum(shares[d] / expected(d, k, concurrency) for d in shares) for k in DESIGN.ks} | {0: 1.0}
            chosen = next(k for first, last, k in found.schedule if first <= concurrency <= last)
            always = (
                max(truth[found.num_speculative_tokens], 1.0) if found.num_speculative_tokens else max(truth.values())
            )
            # Each of four ratios is of two noisy blocks; an interval reaches 3.182 deviations (t, 3 degrees) to a side.
            assert truth[chosen] > always * math.exp(-2 * 3.182 * sigma * math.sqrt(2 / DESIGN.repetitions))


def test_texts_part_at_their_first_difference():
    assert [parting(*texts) for texts in (("abc", "abc"), ("abc", "abd"), ("abc", "ab"), ("", "x"))] == [None, 2, 2, 0]


def test_unequal_texts_are_counted_at_temperature_0_alone():
    design = dataclasses.replace(DESIGN, temperatures=(0.0, 0.7))
    runs = {
        block: dataclasses.replace(run, answers=(None, Kept(9, 0.1, "texture"), *run.answers[2:])) if block.k else run
        for block, run in runs_of(design, law).items()
    }
    cells = measured_cells(design, runs)
    single = next(cell for cell in cells if cell.cell == Cell("home", 0.0, 1))
    assert single.texts == Texts(compared=7 * 4, equal=6 * 4, parted_after=4)
    assert {cell.texts is None for cell in cells if cell.cell.temperature > 0} == {True}
