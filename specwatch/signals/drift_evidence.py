"""How much blocks of traffic speak for a change of acceptance in one direction, since when, and for its end.

Sizes are not known beforehand, so a few are tried at once. For each of them every block adds its log-likelihood ratio,
λ, changed against unchanged (``Departure``). Two sums of it are kept. Shiryaev and Roberts's R ← (m + R)·e^λ weighs all
moments at which the change may have begun, m of them in a block that took m times the shortest: on a quiet night one
block is minutes. Without a change its mean grows by 1 a moment, so a weighted mean over the sizes reaches T after T
moments at the earliest on average (Pollak 1985), whatever the sizes. Page's S ← max(0, S) + λ tells the likeliest
moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from specwatch.signals.drift_reference import Block, Reference, block_dispersion, inside
from specwatch.signals.drift_trend import Line

SIZES = (0.03, 0.05, 0.10, 0.20, 0.40)
"""Changes of acceptance that are looked for. Each is nearly as good for anything from 0.7 to 1.5 times itself; what
lasts at less than half of the smallest is never called a change."""

WEIGHTS = (0.08, 0.3, 0.17, 0.35, 0.1)
"""Share of each size in the mean. Five points are the least that has to be found soon; twenty have to be found within
two blocks of a busy server, and these can only hold so much evidence."""

EVIDENCE = math.log(172_800) + 0.5
"""Logarithm of R that is an alarm: one false alarm in the 172,800 moments of 30 days, and a margin for what Departure
leaves, such as that falls have longer tails than rises; benchmarks/drift.py shows what comes of it."""

CEILING = 1.5
"""Score at which evidence stops growing."""

LIMIT = 50.0
"""Most that a block adds to a sum: e⁵⁰ is far beyond the ceiling, and a float holds it."""

LEAST_DEGREES = 4.0
"""Degrees of freedom of Student's law at least: with more than four it has the kurtosis that blocks show."""

TRIALS_A_DEGREE = 7.0
"""Binomial trials' worth of information in a block that add a degree. A block's counts are those of few requests, whose
lengths are about exponential: excess kurtosis 62 to 77 over the trials, in benchmarks.drift_traces at 2 to 20 requests
a block, would be 10 to 13 trials by Student's 6 / (ν - 4). But its tails end sooner than his."""

MOST = 1e300
"""Of R, before a float overflows."""


@dataclass(frozen=True)
class Change:
    """A change under way."""

    since: float
    """Unix seconds."""
    points: float
    """Rate since then, less the reference."""
    margin: float
    """Half of the 95 % interval of ``points``."""


@dataclass(frozen=True)
class Departure:
    """How far a block departs from the reference, and what that is worth.

    The ratio of binomial likelihoods divided by the dispersion φ would be the quasi-likelihood's, as if blocks were
    normal. They are not: one long request can make a quarter of a block. So deviances are taken as those of Student's
    law with ν degrees of freedom and the same variance,

        λ = (ν + 1)/2 · ln[(ν - 2 + D₀) / (ν - 2 + D₁)],

    where D is twice the log-likelihood that is lost against the block's own rate, over φ of a block by itself, for the
    reference and for the changed rate. It is the quasi-likelihood's for a large block, and bounded for a small one.
    What neighbours share counts once: λ is divided by their correlation.
    """

    dispersion: float
    """Of a block by itself."""
    correlation: float
    degrees: float
    deviance: float
    """From the reference."""

    def ratio(self, likelihood: float) -> float:
        """λ, where the binomial log-likelihood ratio is ``likelihood``."""
        rest = self.degrees - 2 + self.deviance
        changed = rest - 2 * likelihood / self.dispersion
        return (self.degrees + 1) / 2 * math.log(rest / changed) / self.correlation


def departure_of(block: Block, reference: Reference, dispersion: float, correlation: float) -> Departure:
    """How far a block departs, where φ with all correlation in it is ``dispersion``."""
    by_itself = block_dispersion(dispersion, reference.rate, block.draft_tokens) / correlation
    rate, own = inside(reference.rate), block.accepted / block.draft_tokens
    lost = _term(own, rate) + _term(1 - own, 1 - rate)
    degrees = LEAST_DEGREES + block.draft_tokens / by_itself / TRIALS_A_DEGREE
    return Departure(by_itself, correlation, degrees, 2 * block.draft_tokens * lost / by_itself)


def _term(own: float, rate: float) -> float:
    return own * math.log(own / rate) if own > 0 else 0.0


@dataclass
class _Size:
    """One size of change: its sums, and what was counted since Page's sum left zero."""

    points: float
    needed: float = math.inf
    """Draft tokens that it takes to find it; without end near 0 or 1, where there is no room for the change."""
    learned: float = 0.0
    """Draft tokens of the reference."""
    accepted_token: float = 0.0
    rejected_token: float = 0.0
    """Log-likelihood ratios."""
    shiryaev_roberts: float = 0.0
    page: float = 0.0
    since: float = 0.0
    tokens: float = 0.0
    accepted: float = 0.0

    def tune(self, reference: Reference) -> None:
        """Set the ratios for a reference."""
        rate, changed = inside(reference.rate), inside(reference.rate + self.points)
        self.accepted_token = math.log(changed / rate)
        self.rejected_token = math.log((1 - changed) / (1 - rate))
        information = changed * self.accepted_token + (1 - changed) * self.rejected_token
        self.needed = EVIDENCE * reference.dispersion / information if information > 0 else math.inf
        self.learned = reference.draft_tokens

    def add(self, began: float, block: Block, departure: Departure) -> None:
        """Take in a block."""
        rejected = block.draft_tokens - block.accepted
        ratio = departure.ratio(block.accepted * self.accepted_token + rejected * self.rejected_token)
        ratio = max(-LIMIT, min(LIMIT, ratio))
        self.shiryaev_roberts = min((block.moments + self.shiryaev_roberts) * math.exp(ratio), MOST)
        if self.page <= 0:
            self.page, self.since, self.tokens, self.accepted = 0.0, began, 0.0, 0.0
        self.page += ratio
        self.tokens += block.draft_tokens
        self.accepted += block.accepted

    @property
    def evidence(self) -> float:
        """R, with the doubt that the reference is an estimate too.

        A window of m tokens is compared with a reference of n, so its variance is σ²/m + σ²/n and not σ²/m: its
        logarithm is worth n / (n + m). m is what it takes to find this size; a window that goes on for longer than
        twice that counts by its own length, so that a reference which is a little off never adds up to an alarm.
        """
        doubted = self.learned / (self.learned + max(self.needed, self.tokens - self.needed))
        return math.expm1(doubted * math.log1p(self.shiryaev_roberts))

    def adopt(self, line: Line) -> None:
        """Take a slow decay that was found for the likeliest change."""
        self.page, self.since = line.score * EVIDENCE, line.since
        self.tokens, self.accepted = line.tokens, line.accepted

    def clear(self) -> None:
        """Forget the evidence."""
        self.shiryaev_roberts = self.page = self.tokens = self.accepted = 0.0


@dataclass
class Evidence:
    """Evidence for changes by ``sign``·SIZES, -1 for falls. ``changed`` from the alarm to the evidence of its end."""

    sign: float
    changed: bool = False
    returning: float = 0.0
    """Page's sum for the reference against the changed rate, while ``changed``."""
    steps: float = 0.0
    """Score of sudden changes."""
    line: Line | None = None
    """The likeliest slow decay; none among rises."""
    dispersion: float = 1.0
    correlation: float = 1.0
    """Of the reference."""
    sizes: list[_Size] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = [_Size(self.sign * points) for points in SIZES]

    def tune(self, reference: Reference) -> None:
        """Compare with this reference from now on."""
        self.dispersion, self.correlation = reference.dispersion, reference.correlation
        for size in self.sizes:
            size.tune(reference)
        self._weigh()

    def blocks_needed(self, reference: Reference) -> float:
        """Blocks like the reference's that it takes to find a change by five points, SIZES[1]."""
        return self.sizes[1].needed * reference.blocks / reference.draft_tokens

    def add(self, began: float, block: Block, reference: Reference) -> None:
        """Take in a block that began at ``began`` (unix seconds)."""
        departure = departure_of(block, reference, self.dispersion, self.correlation)
        for size in self.sizes:
            size.add(began, block, departure)
        self._weigh()
        if not self.changed:
            self.changed = self._score() >= 1.0
        elif self._has_returned(block, reference):
            self.clear()

    def lean(self, line: Line | None) -> bool:
        """Take in what speaks for a slow decay; whether that alone makes it a change now."""
        self.line = line
        if line is None or line.score < 1.0:
            return False
        self.changed = True
        self.sizes[0].adopt(line)
        return True

    def clear(self) -> None:
        """Begin anew."""
        self.changed, self.returning, self.steps, self.line = False, 0.0, 0.0, None
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
        lead: _Size | Line = max(self.sizes, key=lambda size: size.page)
        if self.line is not None and not self.changed and self.line.score > self.steps:
            lead = self.line
        if not lead.tokens:
            return Change(lead.since, 0.0, 1.0)
        rate = lead.accepted / lead.tokens
        binomial = inside(rate) * (1 - inside(rate))
        variance = self.dispersion * binomial * (1 / lead.tokens + 1 / reference.draft_tokens)
        return Change(lead.since, rate - reference.rate, 1.96 * math.sqrt(variance))

    def _score(self) -> float:
        return min(max(self.steps, self.line.score if self.line else 0.0), CEILING)

    def _weigh(self) -> None:
        mean = sum(weight * size.evidence for weight, size in zip(WEIGHTS, self.sizes, strict=True))
        self.steps = math.log1p(mean) / EVIDENCE

    def _has_returned(self, block: Block, reference: Reference) -> bool:
        """Whether a change has ended, by as much evidence as it began with."""
        dispersion = block_dispersion(self.dispersion, reference.rate, block.draft_tokens)
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
            "line": list(astuple(self.line)) if self.line else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` told. ValueError, KeyError or TypeError for anything else."""
        self.changed, self.returning = bool(state["changed"]), float(state["returning"])
        for size, told in zip(self.sizes, state["sizes"], strict=True):
            size.shiryaev_roberts, size.page, size.since, size.tokens, size.accepted = (float(value) for value in told)
        self.line = None if state["line"] is None else Line(*(float(value) for value in state["line"]))
