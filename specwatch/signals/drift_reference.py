"""What a server's normal acceptance is, learned from blocks of traffic: a rate, and how far blocks stray from it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FLOOR = 0.01
"""Standard deviation of a block's rate below which it is not believed, however steady the reference was: no mixture
of requests stays the same to a point."""

INSIDE = 1e-3
"""Rates are kept this far from 0 and 1, where the likelihood of one token would decide everything."""

LAGS = 4
"""Blocks over which correlation is looked for. Answers that take longer than four blocks, a minute, are rare."""

SIGNIFICANT = 1.64
"""Correlation counts when it is above this many standard errors, 1 / √blocks: 5 % by chance."""


def inside(rate: float) -> float:
    """A rate moved off 0 and 1."""
    return min(max(rate, INSIDE), 1 - INSIDE)


def block_dispersion(dispersion: float, rate: float, draft_tokens: float) -> float:
    """φ of a block of so many draft tokens, so large that its rate strays by FLOOR at least."""
    rate = inside(rate)
    return max(dispersion, FLOOR**2 * draft_tokens / (rate * (1 - rate)))


@dataclass(frozen=True)
class Block:
    """Counts of one block of traffic."""

    draft_tokens: float
    accepted: float
    moments: float = 1.0
    """How long it took, in the shortest blocks' durations."""


class Reference:
    """Running sums over the blocks it was taught; forgets none, and keeps only LAGS of them.

    ``_products`` has, by lag from 0 to LAGS, the sums over pairs of blocks (A, N) and (A', N') of A·A', A·N' + N·A' and
    N·N': what any rate's residuals add up to, whatever portions it was learned in.

    The dispersion φ is the variance of a block's accepted tokens over the binomial N·r·(1 - r). It is far above 1,
    because tokens of a request share that request's acceptance, and requests that span blocks make neighbours alike:
    φ then includes the correlation, as what counts is how far the sum of many blocks strays.
    """

    def __init__(self, following: Reference | None = None) -> None:
        """Taught nothing; the blocks that come are neighbours of the last ones that ``following`` was taught."""
        self.blocks = 0
        self._tokens = self._accepted = 0.0
        self._products = [[0.0, 0.0, 0.0] for _ in range(LAGS + 1)]
        self._latest: deque[Block] = deque(following._latest if following else (), maxlen=LAGS)

    def learn(self, block: Block) -> None:
        """Take in one block."""
        self.blocks += 1
        self._tokens += block.draft_tokens
        self._accepted += block.accepted
        for sums, earlier in zip(self._products, (block, *self._latest), strict=False):
            sums[0] += block.accepted * earlier.accepted
            sums[1] += block.accepted * earlier.draft_tokens + block.draft_tokens * earlier.accepted
            sums[2] += block.draft_tokens * earlier.draft_tokens
        self._latest.appendleft(block)

    def merge(self, other: Reference) -> None:
        """Take in all that ``other`` was taught, later than this and following it."""
        self.blocks += other.blocks
        self._tokens += other._tokens
        self._accepted += other._accepted
        for mine, its in zip(self._products, other._products, strict=True):
            mine[:] = (a + b for a, b in zip(mine, its, strict=True))

    def move(self, rate: float) -> None:
        """Put another rate in place of its own, as if every block's had been higher or lower by as much."""
        by = rate - self.rate
        self._accepted = rate * self._tokens
        for sums in self._products:
            accepted, mixed, tokens = sums
            sums[:] = accepted + by * mixed + by * by * tokens, mixed + 2 * by * tokens, tokens

    @property
    def draft_tokens(self) -> float:
        """Draft tokens it was taught."""
        return self._tokens

    @property
    def rate(self) -> float:
        """Accepted tokens over draft tokens, pooled."""
        return self._accepted / self._tokens

    @property
    def dispersion(self) -> float:
        """φ, at least 1."""
        binomial = self.rate * (1 - self.rate)
        if self.blocks < 2 or binomial <= 0:
            return 1.0
        degrees = self._tokens - self._products[0][2] / self._tokens
        return max(1.0, self._covariance(0) / (degrees * binomial) * self.correlation)

    @property
    def correlation(self) -> float:
        """Long-run variance over the variance of one block: 1 + 2 Σ ρ over the lags until one is insignificant."""
        total, variance = 1.0, self._covariance(0)
        for lag in range(1, LAGS + 1):
            rho = self._covariance(lag) / variance if variance > 0 else 0.0
            if rho < SIGNIFICANT / math.sqrt(self.blocks):
                break
            total += 2 * rho
        return total

    def _covariance(self, lag: int) -> float:
        """Sum of products of what two blocks, so many blocks apart, strayed from the rate."""
        accepted, mixed, tokens = self._products[lag]
        return accepted - self.rate * mixed + self.rate**2 * tokens

    def state(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "blocks": self.blocks,
            "sums": [self._tokens, self._accepted],
            "products": [list(sums) for sums in self._products],
            "latest": [[block.draft_tokens, block.accepted] for block in self._latest],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Reference:
        """What ``state`` told. ValueError, KeyError or TypeError for anything else."""
        reference = cls()
        reference.blocks = int(state["blocks"])
        reference._tokens, reference._accepted = (float(value) for value in state["sums"])
        products = [[float(value) for value in sums] for sums in state["products"]]
        if [len(sums) for sums in products] != [3] * (LAGS + 1):
            raise ValueError("it holds another number of products")
        reference._products = products
        reference._latest.extend(Block(float(tokens), float(accepted)) for tokens, accepted in state["latest"])
        return reference
