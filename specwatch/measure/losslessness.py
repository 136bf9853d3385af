"""Does sampled text follow the distribution that its own model states? Tests of tokens against their scores.

A token of a lossless server is drawn from p, the model's distribution at the request's temperature, given all before
it. So for any function g of a token whose form is fixed before the token is seen, g - E_p g sums up to a martingale of
known variance, and the product of exp(θ g) / E_p exp(θ g) is a nonnegative one of mean 1, whatever the text, the model
and the number of tokens. The latter is a likelihood ratio, of a sampler that leans towards large g against p. By
Ville's inequality the mean of several of them ever exceeds 1/α with probability α at most: one may look after every
token, and need no normal law, which does not hold where almost all tokens are certain. docs/verify.md has the theory.

Scores list the likeliest tokens only. All others are one outcome here, with the probability that the listed ones leave;
at temperatures other than 1 that share is bounded, and the less favourable bound counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

TILTS = tuple(sign * 2.0**power for sign in (1, -1) for power in range(-4, 1))
"""θ. At z standard deviations the best is z / √variance: from 1/16 (z = 4.5, a variance of 5000: ten thousand tokens or
more) to 1 (a variance of 20: a hundred). In steps of 2, for a θ that is wrong by √2 has 83 % of the best evidence."""

NUCLEUS = 0.9
"""Probability of the tokens that are not called unlikely: what top_p is set to most often."""

LARGEST_VOCABULARY = 2**20
"""Tokens; no published vocabulary has more than 2^18 or so. Needed only for tails above temperature 1."""

MOST_SURPRISE = 32.0
"""Nats beyond the likeliest token, past which more is not counted: a chance of 10^-14 is as good as none."""

ROUNDING = 2.0**-23
"""By how much the listed probabilities' sum may be off: servers send log-probabilities in single precision, whose
steps near 1 are this wide. What they leave to all other tokens is known no better."""

NEAR_TIE = 0.25
"""Nats. bfloat16 has 8 bits of significand, so logits from 16 to 32 lie 1/8 apart: where the two likeliest differ by no
more than 2/8, rounding each by one step, as another batch size or kernel may, can exchange them."""


class Verdict(str, Enum):
    """What a test concludes."""

    SOUND = "sound"
    """No distortion found, and one of the size that was asked for is excluded."""
    DISTORTED = "distorted"
    """The text does not follow the model."""
    INCONCLUSIVE = "inconclusive"
    """None found, and too few tokens to exclude one."""


@dataclass(frozen=True)
class Scored:
    """One sampled token, and what the model says of it: log-probabilities in nats, at temperature 1."""

    logprob: float
    top: tuple[float, ...]
    """Of the likeliest tokens, largest first."""
    listed: bool
    """Whether the token itself is among those."""
    whole: bool = False
    """Whether ``top`` is the whole vocabulary."""


@dataclass(frozen=True)
class Limits:
    """What a conclusion is held to."""

    error_rate: float = 0.001
    """Highest probability that a lossless server is ever called distorted, in all of the tests together."""
    resolution: float = 0.1
    """Change of the share of likeliest tokens that a sound verdict excludes; one token in ten from elsewhere."""
    tests: int = 1
    """Tests that share the error rate."""
    near_tie: float = NEAR_TIE

    @property
    def bar(self) -> float:
        """Log of the likelihood ratio from which on one test finds distortion."""
        return math.log(self.tests / self.error_rate)


@dataclass(frozen=True)
class Check:
    """One figure per token, as sampled and as the model states it."""

    name: str
    tokens: int
    """Those that it is about."""
    observed: float
    expected: float
    z: float
    """Standard deviations between the two, truncation taken off; to read, not to judge by."""
    excluded: float
    """Differences beyond observed - expected ± this are excluded."""
    truncation: float
    """By how much ``expected`` may be off because only the likeliest tokens are listed."""


@dataclass(frozen=True)
class Reading:
    """What the tokens of one temperature say."""

    temperature: float
    tokens: int
    verdict: Verdict
    evidence: float
    """Log likelihood ratio ÷ the one that means distortion; at temperature 0 tokens that are off. From 1: distorted."""
    checks: tuple[Check, ...] = ()
    more_tokens: int | None = 0
    """About how many more it takes to conclude; None: no number does, for too few log-probabilities are listed."""
    off: int = 0
    """At temperature 0: tokens that are neither the likeliest nor within a near-tie of it."""
    near_ties: int = 0
    """At temperature 0: tokens that lost a near-tie."""
    ties: int = 0
    """At temperature 0: places where the two likeliest were in a near-tie."""
    worst: float = 0.0
    """At temperature 0: most that a token's log-probability fell short of the likeliest one's, in nats."""
    off_at_most: float | None = None
    """At temperature 0: share of tokens that may be off all the same."""


class GreedyTest:
    """Temperature 0: every token has to be the likeliest, but for near-ties."""

    temperature = 0.0

    def __init__(self) -> None:
        self._short: list[float] = []
        self._leads: list[float] = []

    @property
    def tokens(self) -> int:
        """Tokens taken in."""
        return len(self._short)

    def take(self, token: Scored) -> None:
        """Take in a token."""
        self._short.append(max(0.0, token.top[0] - token.logprob))
        self._leads.append(token.top[0] - token.top[1] if len(token.top) > 1 else math.inf)

    def reading(self, limits: Limits) -> Reading:
        """What follows from the tokens so far."""
        off = sum(short > limits.near_tie for short in self._short)
        # None off among n excludes, at the error rate, a share s with (1 - s)^n below it.
        needed = math.ceil(limits.bar / limits.resolution)
        verdict = Verdict.DISTORTED if off else Verdict.SOUND if self.tokens >= needed else Verdict.INCONCLUSIVE
        return Reading(
            self.temperature,
            self.tokens,
            verdict,
            evidence=float(off),
            more_tokens=max(0, needed - self.tokens) if verdict is Verdict.INCONCLUSIVE else 0,
            off=off,
            near_ties=sum(0 < short <= limits.near_tie for short in self._short),
            ties=sum(lead <= limits.near_tie for lead in self._leads),
            worst=max(self._short, default=0.0),
            off_at_most=min(1.0, limits.bar / self.tokens) if self.tokens and not off else None,
        )


@dataclass(frozen=True)
class _Outcomes:
    """What a token could have been, weighed in units of the likeliest one."""

    weights: Sequence[float]
    """Of the listed tokens."""
    total: float
    """Of those together."""
    rest: tuple[float, float]
    """Least and most weight of all that are not listed."""


def _outcomes(token: Scored, temperature: float) -> _Outcomes:
    first, beta = token.top[0], 1.0 / temperature
    weights = [math.exp((value - first) * beta) for value in token.top]
    return _Outcomes(weights, sum(weights), (0.0, 0.0) if token.whole else _rest(token, beta))


def _rest(token: Scored, beta: float) -> tuple[float, float]:
    """Bounds of Σ p^β over what is not listed, ÷ the likeliest token's p^β.

    Its probability r at temperature 1 is known, and none exceeds the last one listed, m: so Σ p^β is at most r m^(β-1)
    for β > 1, by convexity, and at least that for β < 1, where V equal ones of r / V have the largest sum.
    """
    first, last = token.top[0], token.top[-1]
    left = 1.0 - sum(map(math.exp, token.top))
    least, most = max(0.0, left - ROUNDING), max(0.0, left) + ROUNDING
    packed_one = math.exp((beta - 1) * last - beta * first)
    if beta == 1.0:
        return least * packed_one, most * packed_one
    if beta > 1.0:
        return 0.0, most * packed_one
    spread = math.exp(beta * (math.log(most) - first) + (1 - beta) * math.log(LARGEST_VOCABULARY))
    return least * packed_one, max(most * packed_one, spread)


@dataclass(frozen=True)
class _Feature:
    """A function g of the token, as its values on groups of listed tokens, on all others, and on the one that came."""

    weights: Sequence[float]
    values: Sequence[float]
    beyond: float
    came: float
    base: float = 0.0
    """What people add to all of them; no difference is changed by it."""

    def means(self, values: Sequence[float], beyond: float, rest: tuple[float, float]) -> tuple[float, float]:
        """E_p of a function with these values on the groups and beyond, for both bounds of the rest."""
        total = sum(self.weights)
        listed = sum(map(float.__mul__, self.weights, values))
        low, high = ((listed + weight * beyond) / (total + weight) for weight in rest)
        return low, high


def _surprise(token: Scored, outcomes: _Outcomes, temperature: float) -> _Feature:
    """-log p at the temperature; what is not listed counts as the last that is."""
    first, base = token.top[0], math.log(outcomes.total + sum(outcomes.rest) / 2)
    values = [min((first - value) / temperature, MOST_SURPRISE) for value in token.top]
    return _Feature(outcomes.weights, values, values[-1], min((first - token.logprob) / temperature, values[-1]), base)


def _likeliest(token: Scored, outcomes: _Outcomes, temperature: float) -> _Feature:
    """Whether it is the likeliest one, or one of several that are listed."""
    first = token.top[0]
    count = sum(value >= first for value in token.top)
    return _indicator(outcomes, count, inside=1.0, came=float(token.listed and token.logprob >= first))


def _likeliest_open(token: Scored, outcomes: _Outcomes, temperature: float) -> _Feature | None:
    return _likeliest(token, outcomes, temperature) if _is_open(outcomes) else None


def _likeliest_sure(token: Scored, outcomes: _Outcomes, temperature: float) -> _Feature | None:
    return None if _is_open(outcomes) else _likeliest(token, outcomes, temperature)


def _is_open(outcomes: _Outcomes) -> bool:
    """Whether the likeliest token has less than half of the probability."""
    return outcomes.total + outcomes.rest[0] > 2.0


def _unlikely(token: Scored, outcomes: _Outcomes, temperature: float) -> _Feature:
    """Whether it is outside the fewest tokens that have NUCLEUS of the probability."""
    wanted, mass, cut = NUCLEUS * (outcomes.total + outcomes.rest[1]), 0.0, token.top[-1]
    for value, weight in zip(token.top, outcomes.weights, strict=True):
        mass += weight
        if mass >= wanted:
            cut = value
            break
    count = sum(value >= cut for value in token.top)
    return _indicator(outcomes, count, inside=0.0, came=float(not token.listed or token.logprob < cut))


def _indicator(outcomes: _Outcomes, count: int, inside: float, came: float) -> _Feature:
    """A feature with one value on the first ``count`` listed tokens, and the other of 0 and 1 on all else."""
    mass = sum(outcomes.weights[:count])
    return _Feature((mass, outcomes.total - mass), (inside, 1.0 - inside), 1.0 - inside, came)


FEATURES: dict[str, Callable[[Scored, _Outcomes, float], _Feature | None]] = {
    "surprise": _surprise,
    "likeliest": _likeliest,
    "likeliest_open": _likeliest_open,
    "likeliest_sure": _likeliest_sure,
    "unlikely": _unlikely,
}
"""None where a feature says nothing of a place. A wrong temperature moves the surprise, a rejected token that comes
back the share of likeliest ones, a cut tail the unlikely ones. A draft that is trusted too much adds likeliest tokens
where the text is open and takes them where it is sure, which may cancel in the sum. What leaves one as it was moves
another."""

RATIOS = len(FEATURES) * len(TILTS)
"""Likelihood ratios whose mean is the evidence."""


class _Tally:
    """Sums of one feature."""

    def __init__(self) -> None:
        self.tokens = 0
        self.observed = self.expected = self.variance = self.truncation = 0.0
        self.log_ratios = [0.0] * len(TILTS)

    def take(self, feature: _Feature, rest: tuple[float, float]) -> None:
        low, high = feature.means(feature.values, feature.beyond, rest)
        squares = feature.means([value * value for value in feature.values], feature.beyond**2, rest)
        mean = (low + high) / 2
        self.tokens += 1
        self.observed += feature.came + feature.base
        self.expected += mean + feature.base
        self.variance += max(0.0, sum(squares) / 2 - mean * mean)
        self.truncation += abs(high - low) / 2
        for index, ratio in enumerate(_log_ratios(feature, rest)):
            self.log_ratios[index] += ratio

    def check(self, name: str, bar: float) -> Check:
        difference = self.observed - self.expected
        beyond = math.copysign(max(0.0, abs(difference) - self.truncation), difference)
        return Check(
            name=name,
            tokens=self.tokens,
            observed=self.observed / self.tokens,
            expected=self.expected / self.tokens,
            z=beyond / math.sqrt(self.variance) if self.variance > 0 else 0.0,
            excluded=(_reach(self.variance, bar) + self.truncation) / self.tokens,
            truncation=self.truncation / self.tokens,
        )


def _log_ratios(feature: _Feature, rest: tuple[float, float]) -> Iterator[float]:
    """Of each tilt, in the order of TILTS; never more than the true one, wherever the rest is within its bounds."""
    for sign in (1, -1):
        # Tilts double from one to the next, so their exponentials are squares.
        lean = sign * TILTS[0]
        values = [math.exp(lean * value) for value in feature.values]
        beyond, came = math.exp(lean * feature.beyond), lean * feature.came
        for _ in range(len(TILTS) // 2):
            yield came - math.log(max(feature.means(values, beyond, rest)))
            values, beyond, came = [value * value for value in values], beyond * beyond, came * 2


def _reach(variance: float, bar: float) -> float:
    """Deviation of a sum of this variance that has the evidence ``bar``, terms of 1 at most: Freedman's inequality."""
    return bar / 3 + math.sqrt(bar * bar / 9 + 2 * variance * bar)


class SampledTest:
    """A temperature above 0: likelihood ratios of samplers that lean one way or another, against the model."""

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.tokens = 0
        self._tallies = {name: _Tally() for name in FEATURES}

    def take(self, token: Scored) -> None:
        """Take in a token."""
        outcomes = _outcomes(token, self.temperature)
        for name, feature in FEATURES.items():
            found = feature(token, outcomes, self.temperature)
            if found:
                self._tallies[name].take(found, outcomes.rest)
        self.tokens += 1

    @property
    def log_ratio(self) -> float:
        """Log of the mean of all likelihood ratios."""
        logs = [value for tally in self._tallies.values() for value in tally.log_ratios]
        most = max(logs)
        return most + math.log(sum(math.exp(value - most) for value in logs) / RATIOS)

    def reading(self, limits: Limits) -> Reading:
        """What follows from the tokens so far."""
        bar = limits.bar + math.log(RATIOS)
        checks = tuple(tally.check(name, bar) for name, tally in self._tallies.items() if tally.tokens)
        evidence = max(0.0, self.log_ratio / limits.bar)
        verdict, more = self._conclusion(evidence, checks, limits, bar)
        return Reading(self.temperature, self.tokens, verdict, evidence, checks, more)

    def _conclusion(
        self, evidence: float, checks: Sequence[Check], limits: Limits, bar: float
    ) -> tuple[Verdict, int | None]:
        if evidence >= 1.0:
            return Verdict.DISTORTED, 0
        found = next((check for check in checks if check.name == "likeliest"), None)
        if found is None:
            return Verdict.INCONCLUSIVE, math.ceil(_tokens_for(limits.resolution, bar, 0.25))
        difference = abs(found.observed - found.expected)
        if difference + found.excluded <= limits.resolution:
            return Verdict.SOUND, 0
        if found.truncation >= limits.resolution:
            return Verdict.INCONCLUSIVE, None
        # The difference is noise more often than not, and shrinks: half of the room is left to it at most.
        left = limits.resolution - found.truncation
        room = left - min(difference, left / 2)
        needed = _tokens_for(room, bar, self._tallies["likeliest"].variance / self.tokens)
        return Verdict.INCONCLUSIVE, max(1, math.ceil(needed) - self.tokens)


def _tokens_for(share: float, bar: float, variance: float) -> float:
    """Tokens of this variance each for which ``_reach`` is ``share`` of their number."""
    return 2 * bar * (variance + share / 3) / share**2


def test_at(temperature: float) -> GreedyTest | SampledTest:
    """The test for text sampled at a temperature."""
    return SampledTest(temperature) if temperature > 0 else GreedyTest()
