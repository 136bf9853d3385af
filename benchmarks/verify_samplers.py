"""A simulated model that speculates: contexts with a target's and a draft's distributions, and ways to sample there.

The lossless way is vLLM's: a draft that proposes its likeliest token, kept with the target's probability of it, and
replaced by another one of the target's otherwise. The others are distorted on purpose.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specwatch.measure.losslessness import Scored

VOCABULARY = 500
CONTEXTS = 256
"""Different ones; a text visits them at random."""


RANKS = 200
"""Ranks that are looked at for a rare token: their probabilities are all but 1 at temperature 1 and below."""


@dataclass(frozen=True)
class Context:
    """What target and draft think of the next token. Tokens are in the order of the target's preference."""

    logprobs: tuple[float, ...]
    """The target's at temperature 1, largest first."""
    draft: int
    """The token that the draft proposes."""


@dataclass(frozen=True)
class Model:
    """A target with its draft, at one temperature; cumulative weights make sampling quick."""

    contexts: tuple[Context, ...]
    temperature: float
    cumulative: tuple[tuple[float, ...], ...]

    def scored(self, place: int, token: int, listed: int) -> Scored:
        """The token as a server scores it."""
        logprobs = self.contexts[place].logprobs
        return Scored(logprobs[token], logprobs[:listed], token < listed, listed >= len(logprobs))

    def probability(self, place: int, token: int) -> float:
        """Of a token at the temperature."""
        steps = self.cumulative[place]
        return (steps[token] - (steps[token - 1] if token else 0.0)) / steps[-1]

    def draw(self, place: int, source: random.Random) -> int:
        """A token of the target."""
        return source.choices(range(len(self.cumulative[place])), cum_weights=self.cumulative[place])[0]


@functools.cache
def model(temperature: float, seed: int = 0, vocabulary: int = VOCABULARY, contexts: int = CONTEXTS) -> Model:
    """Contexts from almost certain to wide open, as text has them; the draft proposes the likeliest token in most."""
    source = random.Random(seed)  # noqa: S311 -- repeatable is the point here
    made = tuple(_context(source, vocabulary) for _ in range(contexts))
    return Model(made, temperature, tuple(_cumulative(context, temperature) for context in made))


def _context(source: random.Random, vocabulary: int) -> Context:
    # Zipf's law with an exponent from 1.2 (open) to 5 (almost certain), and some noise.
    exponent = source.uniform(1.2, 5.0)
    raw = sorted((source.gauss(0, 0.5) - exponent * math.log(rank) for rank in range(1, vocabulary + 1)), reverse=True)
    total = math.log(sum(map(math.exp, raw)))
    return Context(tuple(value - total for value in raw), draft=source.choices((0, 1, 2, 5), (0.7, 0.15, 0.1, 0.05))[0])


def _cumulative(context: Context, temperature: float) -> tuple[float, ...]:
    total, steps = 0.0, []
    for value in context.logprobs:
        total += math.exp((value - context.logprobs[0]) / temperature)
        steps.append(total)
    return tuple(steps)


Sampler = Callable[[Model, int, random.Random], int]
"""Gives a token for a context, by its place."""


def lossless(model: Model, place: int, source: random.Random) -> int:
    """Rejection sampling of a draft that is all on one token: kept with p, else drawn from the others."""
    draft = model.contexts[place].draft
    if source.random() < model.probability(place, draft):
        return draft
    while (token := model.draw(place, source)) == draft:
        pass
    return token


def trusting(share: float) -> Sampler:
    """Keeps the draft's token without a look at the target, in this share of cases."""

    def sample(model: Model, place: int, source: random.Random) -> int:
        return model.contexts[place].draft if source.random() < share else lossless(model, place, source)

    return sample


def without_residual(share: float) -> Sampler:
    """Replaces this share of the rejected tokens by any of the target's, the rejected one included."""

    def sample(model: Model, place: int, source: random.Random) -> int:
        draft = model.contexts[place].draft
        if source.random() < model.probability(place, draft):
            return draft
        return model.draw(place, source) if source.random() < share else _other(model, place, source)

    return sample


def _other(model: Model, place: int, source: random.Random) -> int:
    while (token := model.draw(place, source)) == model.contexts[place].draft:
        pass
    return token


def garbage(share: float) -> Sampler:
    """Any token of the vocabulary, in this share of cases."""

    def sample(model: Model, place: int, source: random.Random) -> int:
        if source.random() < share:
            return source.randrange(len(model.contexts[place].logprobs))
        return lossless(model, place, source)

    return sample


def polarised(share: float) -> Sampler:
    """In this share of cases the likeliest token or a rare one, so mixed that the mean surprise stays as it was."""

    def sample(model: Model, place: int, source: random.Random) -> int:
        if source.random() >= share:
            return lossless(model, place, source)
        rare, odds = _poles(model, place)
        return 0 if source.random() < odds else rare

    return sample


def _poles(model: Model, place: int) -> tuple[int, float]:
    """A token 4 nats more surprising than the mean, and how often to take the likeliest instead."""
    logprobs, total = model.contexts[place].logprobs, math.log(model.cumulative[place][-1])
    surprises = [(logprobs[0] - value) / model.temperature + total for value in logprobs[:RANKS]]
    mean = sum(math.exp(-surprise) * surprise for surprise in surprises)
    rare = next((token for token, surprise in enumerate(surprises) if surprise > mean + 4), RANKS - 1)
    return rare, min(1.0, max(0.0, (surprises[rare] - mean) / (surprises[rare] - surprises[0])))


def at_temperature(factor: float) -> Sampler:
    """Samples at another temperature than asked for."""
    tables: dict[tuple[int, int], tuple[float, ...]] = {}

    def sample(model: Model, place: int, source: random.Random) -> int:
        key = (id(model), place)
        if key not in tables:
            tables[key] = _cumulative(model.contexts[place], model.temperature * factor)
        return source.choices(range(len(tables[key])), cum_weights=tables[key])[0]

    return sample


def text(model: Model, sampler: Sampler, tokens: int, listed: int, source: random.Random) -> Iterator[Scored]:
    """So many tokens, each in a context of its own, scored."""
    for _ in range(tokens):
        place = source.randrange(len(model.contexts))
        yield model.scored(place, sampler(model, place, source), listed)
