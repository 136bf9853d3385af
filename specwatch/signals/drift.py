"""Has acceptance left its own normal? A one-sided CUSUM on over-dispersed counts.

Requests have acceptances of their own, so tokens of one interval are correlated and binomial errors are several
times too small. The detector therefore learns two things from the first blocks of traffic: the reference rate and
the dispersion φ, by which the variance of a block exceeds the binomial one. Each later block of A accepted among N
draft tokens gives

    z = (r₀·N - A) / √(φ · N · r₀ · (1 - r₀))

and the sum S ← max(0, S + z - ½) raises the alarm at THRESHOLD (Page 1954; slack of half a deviation).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

SLACK = 0.5
"""Standard deviations of fall that are let pass: the CUSUM is then best against a fall of one deviation."""

THRESHOLD = 10.2
"""One false alarm in 30 days of 15-second blocks, 172,800 of them. Siegmund 1985 gives a CUSUM's mean time to a
false alarm as (e^{2kb} - 2kb - 1) / 2k² with b = threshold + 1.166; k = ½ and b = 11.37 reach it."""

CEILING = 1.5
"""Score at which the sum stops growing, so that the alarm ends within ten blocks of normal traffic."""

PROOF = 1.52
"""39 / 25.7, the 5 % quantile of χ² with 39 degrees of freedom: with 40 blocks learned, the true dispersion is
below this many times the estimated one in 95 % of cases."""

LEAST_SPREAD = 0.01
"""Standard deviation of a block's rate below which no fall is worth an alarm, however steady the reference was."""


@dataclass(frozen=True)
class DriftSettings:
    """How traffic is cut into blocks and how long the reference is learned."""

    block_seconds: float = 15.0
    """Least duration of a block."""
    block_drafts: float = 30.0
    """Least drafts in a block: below it, one request decides the block's rate."""
    learn_blocks: int = 40
    """Blocks that make the reference: ten minutes of traffic. PROOF belongs to this number."""


@dataclass(frozen=True)
class DriftReading:
    """What the detector says after an update."""

    score: float | None
    """Sum ÷ threshold: 1 raises the alarm, CEILING is the most. None while learning."""
    reference: float | None
    """The acceptance rate taken as normal. None while learning."""
    since: float | None
    """When the present fall began, where there is one: the last time the sum left zero."""
    learned: float
    """Share of the reference learned, 0 to 1."""

    @property
    def alarmed(self) -> bool:
        """Whether acceptance has left its normal."""
        return self.score is not None and self.score >= 1.0


@dataclass(frozen=True)
class _Block:
    draft_tokens: float
    accepted: float


@dataclass(frozen=True)
class _Reference:
    rate: float
    dispersion: float

    def fall(self, block: _Block) -> float:
        """Standard deviations by which a block lies below the reference."""
        binomial = block.draft_tokens * self.rate * (1 - self.rate)
        spread = max(math.sqrt(self.dispersion * binomial), LEAST_SPREAD * block.draft_tokens)
        return (self.rate * block.draft_tokens - block.accepted) / spread


class DriftDetector:
    """Feed it every interval's counts; it remembers at most ``learn_blocks`` blocks."""

    def __init__(self, settings: DriftSettings | None = None) -> None:
        self._settings = settings or DriftSettings()
        self._regime: Hashable = None
        self._begin()

    def _begin(self) -> None:
        self._learning: list[_Block] = []
        self._reference: _Reference | None = None
        self._sum = 0.0
        self._since: float | None = None
        self._clear_block()

    def _clear_block(self) -> None:
        self._seconds = self._drafts = self._draft_tokens = self._accepted = 0.0

    def update(
        self,
        at: float,
        seconds: float,
        drafts: float,
        draft_tokens: float,
        accepted: float,
        regime: Hashable = None,
    ) -> DriftReading:
        """Take in what happened in the ``seconds`` before ``at``.

        ``regime`` is whatever makes acceptance incomparable when it changes (K, method, release): a new one starts a
        new reference instead of an alarm.
        """
        if regime != self._regime:
            self._regime = regime
            self._begin()
        self._seconds += seconds
        self._drafts += drafts
        self._draft_tokens += draft_tokens
        self._accepted += accepted
        if self._seconds >= self._settings.block_seconds and self._drafts >= self._settings.block_drafts:
            self._close_block(at)
        return self.reading()

    def reading(self) -> DriftReading:
        """The present state."""
        learned = 1.0 if self._reference else len(self._learning) / self._settings.learn_blocks
        return DriftReading(
            score=self._sum / THRESHOLD if self._reference else None,
            reference=self._reference.rate if self._reference else None,
            since=self._since,
            learned=learned,
        )

    def _close_block(self, at: float) -> None:
        block, began = _Block(self._draft_tokens, self._accepted), at - self._seconds
        self._clear_block()
        if self._reference is None:
            self._learning.append(block)
            if len(self._learning) >= self._settings.learn_blocks:
                self._reference = _learn(self._learning)
                self._learning = []
            return
        before = self._sum
        self._sum = min(max(0.0, before + self._reference.fall(block) - SLACK), CEILING * THRESHOLD)
        if self._sum == 0.0:
            self._since = None
        elif before == 0.0:
            self._since = began


def _learn(blocks: list[_Block]) -> _Reference:
    """Pooled rate, and the upper bound of the dispersion that Pearson's statistic gives (quasi-binomial)."""
    tokens = sum(block.draft_tokens for block in blocks)
    rate = sum(block.accepted for block in blocks) / tokens
    if rate in (0.0, 1.0):
        return _Reference(rate, dispersion=1.0)
    pearson = sum(
        (block.accepted - rate * block.draft_tokens) ** 2 / (block.draft_tokens * rate * (1 - rate)) for block in blocks
    )
    return _Reference(rate, dispersion=max(1.0, PROOF * pearson / (len(blocks) - 1)))
