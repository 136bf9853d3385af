"""From runs to advice: what a step costs, where speculation stops paying, and which K to draft at which batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specwatch.measure.calibration.blocks import Block, Cell, Design
from specwatch.measure.calibration.cells import Measured, pairs
from specwatch.measure.calibration.runs import Run
from specwatch.measure.calibration.stats import Estimate, geometric_mean, ratio_of
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.signals.speedup import DraftCost

ASSUMED_VERIFY_COST = 1.0
"""v of a single request, taken where one K alone was measured: a decode step waits for memory, not for arithmetic."""


@dataclass(frozen=True)
class StepCost:
    """c and v at one concurrency."""

    concurrency: int
    draft: float
    """Time of a draft token ÷ time of a plain step: c."""
    verify: float
    """Time of a verifying step ÷ time of a plain step: v."""


@dataclass(frozen=True)
class Pooled:
    """All domains and temperatures together, by their shares of the tokens, at one K and concurrency."""

    k: int
    concurrency: int
    speedup: Estimate


@dataclass(frozen=True)
class Crossover:
    """From where on speculation is slower than none."""

    k: int
    domain: str
    concurrency: int | None
    """None: not up to the largest that was measured."""


@dataclass(frozen=True)
class Advice:
    """What to launch with."""

    num_speculative_tokens: int
    """The largest K of the schedule; 0: speculation pays nowhere."""
    schedule: tuple[tuple[int, int, int], ...]
    """First and last batch size, K. The last K holds beyond."""


def cost_points(design: Design, runs: Mapping[Block, Run]) -> list[CostPoint]:
    """What a step costs at every K and concurrency, domains, temperatures and repetitions pooled.

    Geometric means, so that the ratio of the two costs is the mean of the ratios within repetitions: a machine that
    was slow for one repetition was so for both servers. Empty where a server does not time its steps.
    """
    found = []
    for concurrency in design.ladder:
        cells = _at(design, concurrency)
        batches = [run.batch_size for block, run in runs.items() if block.cell in cells]
        for k in design.ks:
            both = [pair for cell in cells for pair in pairs(design, runs, k, cell)]
            plain = [run.step_seconds for run, _ in both]
            drafted = [run.step_seconds for _, run in both]
            if None in (*plain, *drafted, *batches):
                return []
            means = [geometric_mean([value for value in values if value]) for values in (batches, drafted, plain)]
            found.append(CostPoint(k, *means))
    return found


def step_costs(design: Design, points: Sequence[CostPoint]) -> list[StepCost]:
    """Both costs by concurrency, from w = v + K·c; with one K alone, v is taken as 1 for a single request."""
    if not points:
        return []
    curve = CostCurve.of(points)
    sizes = [point.concurrency for point in points if point.num_speculative_tokens == design.ks[0]]
    if len(design.ks) > 1:
        fitted = [curve.draft_cost(size) for size in sizes]
        return [
            StepCost(concurrency, cost.c, cost.v)
            for concurrency, cost in zip(design.ladder, fitted, strict=True)
            if isinstance(cost, DraftCost)
        ]
    (k,) = design.ks
    ratios = [curve.ratio(k, size) or 1.0 for size in sizes]
    draft = max(0.0, (ratios[0] - ASSUMED_VERIFY_COST) / k)
    return [StepCost(b, draft, ratio - k * draft) for b, ratio in zip(design.ladder, ratios, strict=True)]


def pooled(design: Design, runs: Mapping[Block, Run], shares: Mapping[str, float]) -> list[Pooled]:
    """The speedup of mixed traffic: mean time per token without speculation ÷ with it, by the domains' shares."""
    return [
        Pooled(
            k, concurrency, ratio_of([_mixed(design, runs, shares, k, concurrency, turn) for turn in _turns(design)])
        )
        for k in design.ks
        for concurrency in design.ladder
    ]


def _turns(design: Design) -> range:
    return range(design.repetitions)


def _mixed(
    design: Design, runs: Mapping[Block, Run], shares: Mapping[str, float], k: int, concurrency: int, turn: int
) -> float:
    cells = _at(design, concurrency)
    plain = sum(shares[cell.domain] * runs[Block(turn, 0, cell)].tpot for cell in cells)
    return plain / sum(shares[cell.domain] * runs[Block(turn, k, cell)].tpot for cell in cells)


def _at(design: Design, concurrency: int) -> list[Cell]:
    return [cell for cell in design.cells() if cell.concurrency == concurrency]


def crossovers(design: Design, cells: Sequence[Measured]) -> list[Crossover]:
    """By K and domain, temperatures pooled."""
    found = []
    for k in design.ks:
        for domain in design.domains:
            own = [each for each in cells if each.k == k and each.cell.domain == domain.name]
            speedups = [
                (b, geometric_mean([each.speedup.value for each in own if each.cell.concurrency == b]))
                for b in design.ladder
            ]
            found.append(Crossover(k, domain.name, crossover(speedups)))
    return found


def crossover(speedups: Sequence[tuple[int, float]]) -> int | None:
    """The smallest concurrency from which on all speedups are below 1; None where the last is not.

    Between two measured ones it is interpolated on logarithmic scales.
    """
    slower = len(speedups)
    while slower and speedups[slower - 1][1] < 1:
        slower -= 1
    if slower == len(speedups):
        return None
    after, worse = speedups[slower]
    if slower == 0:
        return after
    before, better = speedups[slower - 1]
    share = math.log(better) / math.log(better / worse)
    exact = math.exp(math.log(before) + share * math.log(after / before))
    return math.floor(exact) + 1


def advice(design: Design, pools: Sequence[Pooled]) -> Advice:
    """At each concurrency the K with the largest lower end of its interval; off where that is below 1.

    Load speaks against drafting. So where nobody knows yet whether it pays, and it surely does at the next larger load,
    that one's K holds; and each K holds from the last measured concurrency (excluded) up to its own. Beyond the
    largest, vLLM keeps the last one.
    """
    steps: list[tuple[int, int]] = []
    for concurrency in reversed(design.ladder):
        own = [each for each in pools if each.concurrency == concurrency]
        best = max(own, key=lambda each: each.speedup.floor)
        undecided = {each.k for each in own if each.speedup.above_one is None}
        following = steps[-1][1] if steps and steps[-1][1] in undecided else 0
        steps.append((concurrency, best.k if best.speedup.floor >= 1 else following))
    return _schedule(steps[::-1])


def _schedule(steps: Sequence[tuple[int, int]]) -> Advice:
    """From K by concurrency, ascending: neighbours with the same K in one entry."""
    schedule: list[tuple[int, int, int]] = []
    first = 1
    for place, (concurrency, k) in enumerate(steps):
        if place + 1 == len(steps) or steps[place + 1][1] != k:
            schedule.append((first, concurrency, k))
            first = concurrency + 1
    return Advice(max(k for _, _, k in schedule), tuple(schedule))
