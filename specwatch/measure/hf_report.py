"""What the generations of a benchmark add up to, by domain and arm."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from specwatch.measure.hf_benchmark import PLAIN, Generation, Plan

RESAMPLES = 1000
"""Of the prompts: the ends of a 95 % interval are then good to a twentieth of its width or so."""
ALL = "all"
"""Stands for every domain together."""


def report(generations: Sequence[Generation], plan: Plan, **about: Any) -> dict[str, Any]:
    """All figures as plain data, under what else is to be said ``about`` the measurement."""
    names = list(dict.fromkeys(one.domain for one in generations))
    domains = {name: [one for one in generations if one.domain == name] for name in names}
    if len(names) > 1:
        domains[ALL] = list(generations)
    return {
        **about,
        "num_assistant_tokens": plan.k,
        "max_tokens": plan.max_tokens,
        "temperature": plan.temperature,
        "repetitions": plan.repetitions,
        "domains": {name: _domain(listed) for name, listed in domains.items()},
    }


def _domain(generations: Sequence[Generation]) -> dict[str, Any]:
    names = list(dict.fromkeys(one.arm for one in generations))
    arms = {name: [one for one in generations if one.arm == name] for name in names}
    return {
        "prompts": len({one.digest for one in generations}),
        "arms": {name: _arm(listed, arms[PLAIN]) for name, listed in arms.items()},
    }


def _arm(generations: Sequence[Generation], plain: Sequence[Generation]) -> dict[str, Any]:
    seconds, tokens = _sums(generations)
    entry: dict[str, Any] = {
        "generations": len(generations),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
    }
    if generations[0].arm == PLAIN:
        return entry
    drafted, accepted = sum(one.drafted for one in generations), sum(one.accepted for one in generations)
    told = [one.equal for one in generations if one.equal is not None]
    low, high = _interval(generations, plain)
    return entry | {
        "speedup": _speedup(generations, plain),
        "speedup_interval": [low, high],
        "equal_to_plain": sum(told) / len(told) if told else None,
        "draft_tokens": drafted,
        "accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if drafted else None,
    }


def _sums(generations: Sequence[Generation]) -> tuple[float, int]:
    return sum(one.seconds for one in generations), sum(len(one.tokens) for one in generations)


def _speedup(ours: Sequence[Generation], plain: Sequence[Generation]) -> float:
    """Tokens per second over the plain arm's."""
    seconds, tokens = _sums(ours)
    plain_seconds, plain_tokens = _sums(plain)
    return tokens / seconds / (plain_tokens / plain_seconds)


def _interval(ours: Sequence[Generation], plain: Sequence[Generation]) -> tuple[float, float]:
    """95 %, by drawing prompts anew: all generations of a prompt, of both arms, come together."""
    digests = sorted({one.digest for one in ours})
    sums = {digest: (*_sums(_of(ours, digest)), *_sums(_of(plain, digest))) for digest in digests}
    source = random.Random(0)  # noqa: S311 -- repeatable is the point here
    speedups = []
    for _ in range(RESAMPLES):
        drawn = [sums[digest] for digest in source.choices(digests, k=len(digests))]
        seconds, tokens, plain_seconds, plain_tokens = (sum(column) for column in zip(*drawn, strict=True))
        speedups.append(tokens / seconds / (plain_tokens / plain_seconds))
    speedups.sort()
    return speedups[round(0.025 * (RESAMPLES - 1))], speedups[round(0.975 * (RESAMPLES - 1))]


def _of(generations: Sequence[Generation], digest: str) -> list[Generation]:
    return [one for one in generations if one.digest == digest]
