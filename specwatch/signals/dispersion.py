"""How much ratios of counters spread, measured on the traffic itself instead of assumed.

Requests have acceptances of their own, and one request spans several scrapes. So counts of neighbouring scrapes move
together, and binomial errors are several times too small. What is estimated here is the long-run variance of a ratio
per unit of its denominator: divided by a window's denominator it is the variance of the window's ratio.

Counts are gathered into batches, each several times as long as a request lives. Two batches with one between them are
nearly independent, and with ratios r, r' and denominators x, x'

    d = (r - r')² / (f/x + f/x')

has that variance as its mean, where f is the share of it that a batch sees (a request that is cut in two by a batch's
end moves both). Part of the spread is none of the requests': tokens within one are accepted or not by chance, and that
shows in the shortest window. Differences of neighbours in time are blind to a slow change of the ratio itself, which
residuals around one common mean would count as spread. (Successive differences: von Neumann 1941; batch means:
Conway 1963.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from specwatch.vllm.metrics import Counter


class Quantity(Enum):
    """Ratios whose spread is measured: counters with weights above, below."""

    ACCEPTANCE_RATE = ({Counter.ACCEPTED_TOKENS: 1.0}, {Counter.DRAFT_TOKENS: 1.0})
    ACCEPTED_PER_DRAFT = ({Counter.ACCEPTED_TOKENS: 1.0}, {Counter.DRAFTS: 1.0})
    TOKENS_PER_STEP = ({Counter.GENERATION_TOKENS: 1.0, Counter.FIRST_TOKENS: -1.0}, {Counter.DECODE_STEPS: 1.0})
    SECONDS_PER_TOKEN = (
        {Counter.DECODE_STEP_SECONDS: 1.0},
        {Counter.GENERATION_TOKENS: 1.0, Counter.FIRST_TOKENS: -1.0},
    )

    def __init__(self, above: Mapping[Counter, float], below: Mapping[Counter, float]) -> None:
        self.above = above
        self.below = below
        self.needed = frozenset([*above, *below])


BATCH_LIVES = 3.0
"""Length of a batch in mean lives of a request. With lives of exponential length 95 % of a batch is decided by
requests that are gone when the batch after the next begins."""

BATCH_DRAFTS = 100.0
"""Least drafts in a batch: quiet hours make longer batches instead of ones that a single request decides."""

MEMORY = 64
"""Differences that the estimate remembers, older ones fading: about an hour of requests that live 20 s. With
fewer the quantile of t grows, with many more a change of traffic would be felt late."""

LEAST = 6
"""Differences below which the spread is not known: t with 4 degrees of freedom is 2.8, with 2 it is 4.3."""

CAP = 9.0
"""How many times the present estimate one difference may count: the square of three deviations. Without it a change
of domain, which is no spread, would swell every interval for an hour."""


@dataclass(frozen=True)
class Spread:
    """What is known of the spread of one engine's ratios."""

    variances: Mapping[Quantity, float]
    """Long-run variance per unit of the denominator."""
    positions: tuple[float, ...]
    """The same for accepted tokens per draft, by position."""
    degrees: float
    """Degrees of freedom of these estimates."""
    life: float
    """Mean seconds that a request decodes."""
    batch_share: float = 1.0
    """Share of the requests' part that a batch sees, by which the variances were divided."""

    def variance(self, long_run: float, independent: float, seconds: float) -> float:
        """Variance over ``seconds``, per unit of the denominator, where ``independent`` of it is no request's doing."""
        of_requests = max(0.0, long_run * self.batch_share - independent) / self.batch_share
        return independent + of_requests * share_seen(seconds, self.life)


def share_seen(seconds: float, life: float) -> float:
    """Share of the long-run variance that a window shows: 0 for a moment, 1 for ever.

    A window that is short beside the requests' lives sees few of them end, and varies less for it.

    Exponential lives correlate as e^(-t/life); its double integral over the window gives this.
    """
    if life <= 0:
        return 1.0
    lives = seconds / life
    return 1 + math.expm1(-lives) / lives


@dataclass(frozen=True)
class _Batch:
    ratios: tuple[float, ...]
    inverse: tuple[float, ...]
    """Of each ratio, its variance as a multiple of the long-run variance."""
    share_seen: float


class Dispersion:
    """Feed it the increments of every scrape of one engine; it remembers two batches and one estimate a ratio."""

    def __init__(self, counters: Collection[Counter], positions: int) -> None:
        self._quantities = [q for q in Quantity if q.needed <= set(counters)]
        self._positions = positions
        self._estimates = [0.0] * (len(self._quantities) + positions)
        self._differences = 0
        self._batch_share = 0.0
        self._older: _Batch | None = None
        self._newer: _Batch | None = None
        self._requests = self._lived = 0.0
        self._begin()

    def _begin(self) -> None:
        self._counts: dict[Counter, float] = {}
        self._accepted = [0.0] * self._positions
        self._seconds = 0.0

    def observe(self, seconds: float, counts: Mapping[Counter, float], accepted: tuple[float, ...]) -> None:
        """Take in what one engine did since the scrape before; what is no finite number ends the batch unused."""
        if not math.isfinite(sum(counts.values())):
            self._begin()
            return
        self._seconds += seconds
        for counter, step in counts.items():
            self._counts[counter] = self._counts.get(counter, 0.0) + step
        for position, step in enumerate(accepted):
            self._accepted[position] += step
        if self._counts.get(Counter.DRAFTS, 0.0) < BATCH_DRAFTS:
            return
        requests = self._requests + self._counts.get(Counter.FINISHED_REQUESTS, 0.0)
        lived = self._lived + self._counts.get(Counter.FINISHED_DECODE_SECONDS, 0.0)
        if requests > 0 and self._seconds * requests >= BATCH_LIVES * lived:
            self._close(lived / requests)
            fade = 1 - 1 / MEMORY
            self._requests, self._lived = requests * fade, lived * fade

    def reading(self) -> Spread | None:
        """The present estimate, or None while too little was seen."""
        if self._differences < LEAST:
            return None
        known = len(self._quantities)
        return Spread(
            variances=dict(zip(self._quantities, self._estimates, strict=False)),
            positions=tuple(self._estimates[known:]),
            # Differences that share a batch correlate by a quarter, which costs a third of the degrees of freedom.
            degrees=self._differences * 2 / 3,
            life=self._lived / self._requests,
            batch_share=self._batch_share,
        )

    def _close(self, life: float) -> None:
        batch = self._batch(share_seen(self._seconds, life))
        self._begin()
        if batch is None:
            return
        if self._older is not None:
            self._learn(self._older, batch)
        self._older, self._newer = self._newer, batch

    def _batch(self, share: float) -> _Batch | None:
        """What was gathered, or None where a denominator is 0, as after a counter was corrected."""
        drafts = self._counts.get(Counter.DRAFTS, 0.0)
        pairs = [(self._sum(q.above), self._sum(q.below)) for q in self._quantities]
        pairs += [(accepted, drafts) for accepted in self._accepted]
        if not all(below > 0 for _, below in pairs):
            return None
        return _Batch(
            ratios=tuple(above / below for above, below in pairs),
            inverse=tuple(share / below for _, below in pairs),
            share_seen=share,
        )

    def _sum(self, terms: Mapping[Counter, float]) -> float:
        return sum(weight * self._counts[counter] for counter, weight in terms.items())

    def _learn(self, first: _Batch, second: _Batch) -> None:
        self._differences = min(self._differences + 1, MEMORY)
        self._batch_share += (second.share_seen - self._batch_share) / self._differences
        for i, estimate in enumerate(self._estimates):
            difference = (first.ratios[i] - second.ratios[i]) ** 2 / (first.inverse[i] + second.inverse[i])
            if self._differences > LEAST:
                difference = min(difference, CAP * estimate)
            self._estimates[i] = estimate + (difference - estimate) / self._differences
