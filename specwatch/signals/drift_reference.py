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


@dataclass(frozen=True)
class Block:
    """Counts of one block of traffic."""

    draft_tokens: float
    accepted: float
    moments: float = 1.0
    """How long it took, in the shortest blocks' durations."""


class Reference:
    """Running sums over the blocks it was taught; forgets none, and keeps only LAGS of them.

    The dispersion φ is the variance of a block's accepted tokens over the binomial N·r·(1 - r). It is far above 1,
    because tokens of a request share that request's acceptance, and requests that span blocks make neighbours alike:
    φ then includes the correlation, as what counts is how far the sum of many blocks strays.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._tokens = self._accepted = self._squares = 0.0
        self._products = [0.0] * LAGS
        self._latest: deque[Block] = deque(maxlen=LAGS)

    def learn(self, block: Block) -> None:
        """Take in one block."""
        self.blocks += 1
        self._tokens += block.draft_tokens
        self._accepted += block.accepted
        self._squares += block.accepted**2 / block.draft_tokens
        rate = self.rate
        mine = (block.accepted - rate * block.draft_tokens) / math.sqrt(block.draft_tokens)
        for lag, earlier in enumerate(self._latest):
            its = (earlier.accepted - rate * earlier.draft_tokens) / math.sqrt(earlier.draft_tokens)
            self._products[lag] += mine * its
        self._latest.appendleft(block)

    def merge(self, other: Reference) -> None:
        """Take in all that ``other`` was taught, later than this."""
        self.blocks += other.blocks
        self._tokens += other._tokens
        self._accepted += other._accepted
        self._squares += other._squares
        self._products = [mine + its for mine, its in zip(self._products, other._products, strict=True)]

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
        rate = self.rate
        binomial = rate * (1 - rate)
        if self.blocks < 2 or binomial <= 0:
            return 1.0
        squares = self._squares - 2 * rate * self._accepted + rate**2 * self._tokens
        return max(1.0, squares / (self.blocks - 1) / binomial * self._correlation(squares))

    def _correlation(self, squares: float) -> float:
        """Long-run variance over the variance of one block: 1 + 2 Σ ρ over the lags until one is insignificant."""
        total = 1.0
        for product in self._products:
            rho = product / squares if squares > 0 else 0.0
            if rho < SIGNIFICANT / math.sqrt(self.blocks):
                break
            total += 2 * rho
        return total

    def state(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "blocks": self.blocks,
            "sums": [self._tokens, self._accepted, self._squares],
            "products": list(self._products),
            "latest": [[block.draft_tokens, block.accepted] for block in self._latest],
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Reference:
        """What ``state`` told. ValueError, KeyError or TypeError for anything else."""
        reference = cls()
        reference.blocks = int(state["blocks"])
        reference._tokens, reference._accepted, reference._squares = (float(value) for value in state["sums"])
        reference._products = [float(value) for value in state["products"]][:LAGS]
        reference._latest.extend(Block(float(tokens), float(accepted)) for tokens, accepted in state["latest"])
        return reference
