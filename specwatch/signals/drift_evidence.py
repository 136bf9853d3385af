"""How much blocks of traffic speak for a change of acceptance in one direction, since when, and for its end.

Sizes are not known beforehand, so a few are tried at once. For each of them every block adds its log-likelihood ratio,
changed against unchanged: that of binomial counts, divided by the dispersion φ (quasi-likelihood). Two sums of it are
kept. Shiryaev and Roberts's R ← (m + R)·e^λ weighs all moments at which the change may have begun, m of them in a block
that took m times the shortest: on a quiet night one block is minutes. Without a change its mean grows by 1 a moment, so
the mean over the sizes reaches T after T moments at the earliest on average (Pollak 1985), whatever the sizes. Page's
S ← max(0, S) + λ tells the likeliest moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specwatch.signals.drift_reference import FLOOR, INSIDE, Block, Reference

SIZES = (0.03, 0.05, 0.10, 0.20)
"""Changes of acceptance that are looked for. Each is nearly as good for anything from 0.7 to 1.5 times itself; what
lasts at less than half of the smallest is never called a change."""

EVIDENCE = math.log(172_800) + 3.9
"""Logarithm of R that is an alarm: one false alarm in the 172,800 moments of 30 days, and a margin. Counts of few
requests stray further than the quasi-likelihood allows; benchmarks/drift.py shows what the margin leaves."""

CEILING = 1.5
"""Score at which evidence stops growing."""

LIMIT = 50.0
"""Most that a block adds to a sum: e⁵⁰ is far beyond the ceiling, and a float holds it."""

MOST_MOMENTS = 240.0
"""Counted of a block: an hour. Those of a day without traffic would look like a change under way by their number."""

_MOST = math.exp(CEILING * EVIDENCE)


@dataclass(frozen=True)
class Change:
    """A change under way."""

    since: float
    """Unix seconds."""
    points: float
    """Rate since then, less the reference."""
    margin: float
    """Half of the 95 % interval of ``points``."""


@dataclass
class _Size:
    """One size of change: its sums, and what was counted since Page's sum left zero."""

    points: float
    needed: float = 0.0
    """Draft tokens that it takes to find it."""
    weight: float = 0.0
    """Of the evidence, for the reference being an estimate too."""
    accepted_token: float = 0.0
    rejected_token: float = 0.0
    """Log-likelihood ratios."""
    shiryaev_roberts: float = 0.0
    page: float = 0.0
    since: float = 0.0
    tokens: float = 0.0
    accepted: float = 0.0

    def tune(self, reference: Reference) -> None:
        """Set the ratios for a reference.

        A window of m blocks is compared with a reference of n, so its variance is σ²/m + σ²/n and not σ²/m: evidence
        is worth 1 / (1 + m/n), with the m that this size takes to be found.
        """
        rate, changed = inside(reference.rate), inside(reference.rate + self.points)
        self.accepted_token = math.log(changed / rate)
        self.rejected_token = math.log((1 - changed) / (1 - rate))
        information = changed * self.accepted_token + (1 - changed) * self.rejected_token
        # Near 0 or 1 there is no room for the change: it has no evidence.
        self.needed = EVIDENCE * reference.dispersion / information if information > 0 else math.inf
        self.weight = 1 / (1 + self.needed / reference.draft_tokens)

    def add(self, began: float, block: Block, dispersion: float) -> None:
        """Take in a block."""
        if not self.weight:
            return
        ratio = block.accepted * self.accepted_token + (block.draft_tokens - block.accepted) * self.rejected_token
        ratio = max(-LIMIT, min(LIMIT, self.weight * ratio / dispersion))
        moments = min(block.moments, MOST_MOMENTS)
        self.shiryaev_roberts = min((moments + self.shiryaev_roberts) * math.exp(ratio), _MOST)
        if self.page <= 0:
            self.page, self.since, self.tokens, self.accepted = 0.0, began, 0.0, 0.0
        self.page += ratio
        self.tokens += block.draft_tokens
        self.accepted += block.accepted

    def clear(self) -> None:
        """Forget the evidence."""
        self.shiryaev_roberts = self.page = self.tokens = self.accepted = 0.0


def inside(rate: float) -> float:
    """A rate moved off 0 and 1."""
    return min(max(rate, INSIDE), 1 - INSIDE)


def block_dispersion(reference: Reference, dispersion: float, block: Block) -> float:
    """φ of a block, so large that its rate strays by FLOOR at least."""
    rate = inside(reference.rate)
    return max(dispersion, FLOOR**2 * block.draft_tokens / (rate * (1 - rate)))


@dataclass
class Evidence:
    """Evidence for changes by ``sign``·SIZES, -1 for falls. ``changed`` from the alarm to the evidence of its end."""

    sign: float
    changed: bool = False
    returning: float = 0.0
    """Page's sum for the reference against the changed rate, while ``changed``."""
    sizes: list[_Size] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = [_Size(self.sign * points) for points in SIZES]

    def tune(self, reference: Reference) -> None:
        """Compare with this reference from now on."""
        for size in self.sizes:
            size.tune(reference)

    def blocks_needed(self, reference: Reference) -> float:
        """Blocks like the reference's that it takes to find a change by five points, SIZES[1]."""
        return self.sizes[1].needed * reference.blocks / reference.draft_tokens

    def add(self, began: float, block: Block, reference: Reference, dispersion: float) -> None:
        """Take in a block that began at ``began`` (unix seconds)."""
        for size in self.sizes:
            size.add(began, block, dispersion)
        if not self.changed:
            self.changed = self._score() >= 1.0
        elif self._has_returned(block, reference, dispersion):
            self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.changed, self.returning = False, 0.0
        for size in self.sizes:
            size.clear()

    @property
    def score(self) -> float:
        """1 is a change; at most CEILING. While it lasts, evidence of its end takes the score back to 1, then to 0."""
        if not self.changed:
            return self._score()
        return 1 + (max(self._score(), 1.0) - 1) * (1 - self.returning / EVIDENCE)

    def change(self, reference: Reference) -> Change:
        """The likeliest change: its beginning and size."""
        lead = max(self.sizes, key=lambda size: size.page)
        if not lead.tokens:
            return Change(lead.since, 0.0, 1.0)
        rate = lead.accepted / lead.tokens
        binomial = inside(rate) * (1 - inside(rate))
        variance = reference.dispersion * binomial * (1 / lead.tokens + 1 / reference.draft_tokens)
        return Change(lead.since, rate - reference.rate, 1.96 * math.sqrt(variance))

    def _score(self) -> float:
        mean = sum(size.shiryaev_roberts for size in self.sizes) / len(self.sizes)
        return min(math.log1p(mean) / EVIDENCE, CEILING)

    def _has_returned(self, block: Block, reference: Reference, dispersion: float) -> bool:
        """Whether a change has ended, by as much evidence as it began with."""
        least = self.sign * SIZES[0]
        points = self.change(reference).points
        fallen = inside(reference.rate + (min if self.sign < 0 else max)(points, least))
        rate = inside(reference.rate)
        rejected = block.draft_tokens - block.accepted
        ratio = block.accepted * math.log(rate / fallen) + rejected * math.log((1 - rate) / (1 - fallen))
        self.returning = max(0.0, self.returning + ratio / dispersion)
        return self.returning >= EVIDENCE

    def state(self) -> dict[str, Any]:
        """Everything that the reference does not tell, for JSON."""
        return {
            "changed": self.changed,
            "returning": self.returning,
            "sizes": [
                [size.shiryaev_roberts, size.page, size.since, size.tokens, size.accepted] for size in self.sizes
            ],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` told. ValueError, KeyError or TypeError for anything else."""
        self.changed, self.returning = bool(state["changed"]), float(state["returning"])
        for size, told in zip(self.sizes, state["sizes"], strict=True):
            size.shiryaev_roberts, size.page, size.since, size.tokens, size.accepted = (float(value) for value in told)
