"""From runs to cells: what speculation was worth at one K, domain, temperature and concurrency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from specwatch.measure.calibration.blocks import MIN_TOKENS, Block, Cell, Design
from specwatch.measure.calibration.runs import Run
from specwatch.measure.calibration.stats import Estimate, added, geometric_mean, percentile, ratio_of
from specwatch.vllm.metrics import Counter

SHARES = (0.5, 0.9, 0.99)
"""Percentiles that are shown."""


@dataclass(frozen=True)
class Texts:
    """Answers of both servers to the same prompts at temperature 0."""

    compared: int
    equal: int
    parted_after: float | None
    """Characters after which unequal answers part, their median; None where all are equal."""


@dataclass(frozen=True)
class Measured:
    """A cell at one K, beside the same cell without speculation. Times in seconds; percentiles by their share."""

    k: int
    cell: Cell
    speedup: Estimate
    """Time per output token without speculation ÷ with it."""
    repetitions: int
    answers: int
    """Answered with speculation."""
    tokens: int
    """Generated with speculation."""
    baseline_tokens: int
    errors: int
    """Failed requests on both servers, timeouts among them."""
    timeouts: int
    acceptance_by_position: tuple[float, ...]
    acceptance_length: float | None
    """Mean tokens of a drafted step, bonus token included."""
    mean_k: float | None
    """Draft tokens ÷ drafts."""
    mean_tpot: float
    """Time per output token that the speedup rests on, by the server's own clock; percentiles are the client's."""
    baseline_mean_tpot: float
    tpot: Mapping[float, float]
    baseline_tpot: Mapping[float, float]
    itl: Mapping[float, float]
    baseline_itl: Mapping[float, float]
    tokens_per_second: float
    baseline_tokens_per_second: float
    texts: Texts | None
    """None above temperature 0."""

    @property
    def enough(self) -> bool:
        """Whether there are tokens to conclude from."""
        return min(self.tokens, self.baseline_tokens) >= MIN_TOKENS


def measured_cells(design: Design, runs: Mapping[Block, Run]) -> list[Measured]:
    """Every cell at every K, in the order of the design."""
    return [_measured(design, runs, k, cell) for k in design.ks for cell in design.cells()]


def pairs(design: Design, runs: Mapping[Block, Run], k: int, cell: Cell) -> list[tuple[Run, Run]]:
    """The runs of a cell without speculation and with it, by repetition: they asked the same prompts."""
    return [(runs[Block(turn, 0, cell)], runs[Block(turn, k, cell)]) for turn in range(design.repetitions)]


def _measured(design: Design, runs: Mapping[Block, Run], k: int, cell: Cell) -> Measured:
    both = pairs(design, runs, k, cell)
    plain, drafted = [run for run, _ in both], [run for _, run in both]
    drafts = _sum(drafted, Counter.DRAFTS)
    accepted = [sum(column) for column in zip(*(run.accepted_per_position for run in drafted), strict=True)]
    return Measured(
        k=k,
        cell=cell,
        speedup=ratio_of([before.tpot / after.tpot for before, after in both]),
        repetitions=len(both),
        answers=sum(answer is not None for run in drafted for answer in run.answers),
        tokens=sum(run.tokens for run in drafted),
        baseline_tokens=sum(run.tokens for run in plain),
        errors=sum(run.errors for run in (*plain, *drafted)),
        timeouts=sum(run.timeouts for run in (*plain, *drafted)),
        acceptance_by_position=tuple(count / drafts for count in accepted) if drafts else (),
        acceptance_length=1 + _sum(drafted, Counter.ACCEPTED_TOKENS) / drafts if drafts else None,
        mean_k=_sum(drafted, Counter.DRAFT_TOKENS) / drafts if drafts else None,
        mean_tpot=geometric_mean([run.tpot for run in drafted]),
        baseline_mean_tpot=geometric_mean([run.tpot for run in plain]),
        tpot=_tpots(drafted),
        baseline_tpot=_tpots(plain),
        itl=_itls(drafted),
        baseline_itl=_itls(plain),
        tokens_per_second=_rate(drafted),
        baseline_tokens_per_second=_rate(plain),
        texts=_texts(both) if cell.temperature == 0 else None,
    )


def _sum(runs: Iterable[Run], counter: Counter) -> float:
    return sum(run.counts.get(counter, 0.0) for run in runs)


def _rate(runs: Sequence[Run]) -> float:
    return sum(run.tokens for run in runs) / sum(run.seconds for run in runs)


def _tpots(runs: Iterable[Run]) -> dict[float, float]:
    values = sorted(answer.tpot for run in runs for answer in run.answers if answer and answer.tpot)
    return {share: values[min(int(share * len(values)), len(values) - 1)] for share in SHARES if values}


def _itls(runs: Iterable[Run]) -> dict[float, float]:
    gaps = added(run.gaps for run in runs)
    found = {share: percentile(gaps, share) for share in SHARES}
    return {share: value for share, value in found.items() if value is not None}


def _texts(both: Iterable[tuple[Run, Run]]) -> Texts:
    places = []
    for before, after in both:
        for one, other in zip(before.answers, after.answers, strict=True):
            if one is not None and other is not None:
                places.append(parting(one.text, other.text))
    parted = [place for place in places if place is not None]
    return Texts(len(places), len(places) - len(parted), median(parted) if parted else None)


def parting(one: str, other: str) -> int | None:
    """Characters that two texts have in common at their beginning; None where they are equal."""
    if one == other:
        return None
    same = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(same, min(len(one), len(other)))
