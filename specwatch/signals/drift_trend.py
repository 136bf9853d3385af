"""Evidence for a slow decay: acceptance kept a level for a while, and has followed a falling line since.

A slow change hides from a reference that is still learned, because the reference follows it. That is right for a rise,
which harms nobody, and what it reached is what the server can do. For a fall, all that was seen is kept, in a few spans
of equal numbers of blocks, and a level that turns into a line with any span is compared with a level alone. Both are
fitted by weighted least squares; the unknown slope has a normal prior with mean 0 and standard deviation STEEPNESS, of
which the half downwards is taken. With the slope's estimate b and its precision S, z = -b·√S and g = STEEPNESS²·S, the
ratio of the marginal likelihoods is

    2·Φ(z·√(g/(1 + g)))/√(1 + g) · exp(z²/2 · g/(1 + g)),

and the mean of it is taken over the moments at which the line may begin. Without a change that mean is 1 on average at
most, so it ever reaches ODDS with a probability of 1/ODDS (Ville 1939): a regime has one chance in a hundred of a false
alarm from here, however long it lasts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from specwatch.signals.drift_reference import block_dispersion, inside

ODDS = 100.0
"""Mean likelihood ratio that is an alarm."""

STEEPNESS = 0.04
"""Rate a day: what falls faster is found by steps sooner. Delays are the same within 3 % from half to twice of it."""

LEAST = 0.015
"""Fall from the line's beginning until now below which nothing is called a decay: half of the smallest step."""

SPANS = 48
"""Kept at most. When there are more, each takes in its neighbour, and spans are twice as long from then on."""

JUDGED_EVERY = 20
"""Blocks; also the shortest span. What takes hours to find may be found five minutes late."""

JUDGED_FROM = 240
"""Blocks, an hour: before, nothing is slow, and the dispersion is not well known."""

MOST_EXPONENT = 50.0
"""Beyond it a likelihood ratio is as good as certain."""

MOMENTS_A_DAY = 5760
"""Of 15 seconds."""


@dataclass(slots=True)
class Span:
    """Counts of some blocks that followed each other."""

    began: float
    """Unix seconds."""
    blocks: int
    moments: float
    tokens: float
    accepted: float

    def take(self, blocks: int, moments: float, tokens: float, accepted: float) -> None:
        """Take in what came next."""
        self.blocks += blocks
        self.moments += moments
        self.tokens += tokens
        self.accepted += accepted


@dataclass(frozen=True)
class Line:
    """The likeliest slow decay."""

    score: float
    """Evidence; 1 is an alarm."""
    since: float
    """When it began, unix seconds."""
    level: float
    """Rate before, as fitted."""
    tokens: float
    accepted: float
    """Draft tokens since it began, and those accepted."""


class Trend:
    """All that was seen since the regime began or a change ended, coarsely."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._length, self._blocks = JUDGED_EVERY, 0

    def add(self, began: float, moments: float, tokens: float, accepted: float) -> bool:
        """Take in a block that began at ``began`` (unix seconds); whether it is time to judge."""
        if not self._spans or self._spans[-1].blocks >= self._length:
            self._spans.append(Span(began, 0, 0.0, 0.0, 0.0))
        self._spans[-1].take(1, moments, tokens, accepted)
        self._blocks += 1
        if len(self._spans) > SPANS:
            self._coarsen()
        return self._blocks >= JUDGED_FROM and self._blocks % JUDGED_EVERY == 0

    def _coarsen(self) -> None:
        """Make one span of every two; the last, which has just begun, may stay alone."""
        for kept, taken in zip(self._spans[::2], self._spans[1::2], strict=False):
            kept.take(taken.blocks, taken.moments, taken.tokens, taken.accepted)
        self._spans, self._length = self._spans[::2], self._length * 2

    def line(self, dispersion: float) -> Line | None:
        """The evidence for a slow decay where blocks stray by ``dispersion``; None where no line falls by LEAST."""
        tokens, accepted = sum(span.tokens for span in self._spans), sum(span.accepted for span in self._spans)
        rate = inside(accepted / tokens)
        variance = block_dispersion(dispersion, rate, tokens / self._blocks) * rate * (1 - rate)
        moments = sum(span.moments for span in self._spans)
        told, best, likeliest = 0.0, 0.0, None
        for fit in _fits(self._spans, accepted / tokens, variance):
            ratio = fit.likelihood_ratio()
            told += ratio * self._spans[fit.first].moments / moments
            if ratio > best:
                best, likeliest = ratio, fit
        if likeliest is None:
            return None
        since = self._spans[likeliest.first :]
        return Line(
            score=math.log1p(told) / math.log1p(ODDS),
            since=since[0].began,
            level=min(max(accepted / tokens - likeliest.slope * likeliest.mean, 0.0), 1.0),
            tokens=sum(span.tokens for span in since),
            accepted=sum(span.accepted for span in since),
        )

    def state(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {"length": self._length, "spans": [list(astuple(span)) for span in self._spans]}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Trend:
        """What ``state`` told. ValueError, KeyError or TypeError for anything else."""
        trend = cls()
        trend._length = int(state["length"])
        for began, blocks, *counts in state["spans"]:
            moments, tokens, accepted = (float(value) for value in counts)
            trend._spans.append(Span(float(began), int(blocks), moments, tokens, accepted))
        if trend._length < JUDGED_EVERY or len(trend._spans) > SPANS or any(s.tokens <= 0 for s in trend._spans):
            raise ValueError("its spans are not such as it keeps")
        trend._blocks = sum(span.blocks for span in trend._spans)
        return trend


@dataclass(frozen=True)
class _Fit:
    """A line from the beginning of a span, x being the days since then and 0 before."""

    first: int
    """The span's index."""
    days: float
    """From there until now."""
    mean: float
    """Of x, over all that was seen."""
    precision: float
    """Of the slope: Σ w·(x - mean)²."""
    slope: float

    def likelihood_ratio(self) -> float:
        """Marginal likelihood with a falling line over that without; 0 where it has fallen by less than LEAST."""
        if -self.slope * self.days < LEAST:
            return 0.0
        prior = STEEPNESS**2 * self.precision
        learned = prior / (1 + prior)
        z = -self.slope * math.sqrt(self.precision)
        exponent = min(z * z / 2 * learned, MOST_EXPONENT)
        return math.erfc(-z * math.sqrt(learned / 2)) / math.sqrt(1 + prior) * math.exp(exponent)


def _fits(spans: Sequence[Span], rate: float, variance: float) -> Iterator[_Fit]:
    """A line from every span's beginning, the latest first.

    Sums over the spans since then are enough for each: of weights w (draft tokens over ``variance``, that of one
    token's share), w·u, w·u², w·d and w·u·d, where u is how many days before now a span's middle is and d what its rate
    strays.
    """
    total = sum(span.tokens for span in spans) / variance
    w = wu = wuu = wd = wud = ago = 0.0
    for first, span in reversed(list(enumerate(spans))):
        length = span.moments / MOMENTS_A_DAY
        middle, ago = ago + length / 2, ago + length
        weight, strayed = span.tokens / variance, (span.accepted - rate * span.tokens) / variance
        w += weight
        wu += weight * middle
        wuu += weight * middle * middle
        wd += strayed
        wud += strayed * middle
        # x = ago - u
        sum_x, sum_xx, sum_xd = ago * w - wu, ago * (ago * w - 2 * wu) + wuu, ago * wd - wud
        precision = sum_xx - sum_x * sum_x / total
        if precision > 0:
            yield _Fit(first, ago, sum_x / total, precision, sum_xd / precision)
