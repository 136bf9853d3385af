"""Which K would be fastest on today's traffic: from what each position brings, and what each K costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Recommended:
    """The K with the largest speedup, and that speedup."""

    k: int
    """0: no K pays, plain decoding is fastest."""
    speedup: float


def recommend(rates: Sequence[float | None], cost: Callable[[int], float | None]) -> Recommended | None:
    """The best K for these acceptance rates by position, unconditional, position 0 first.

    A draft of K tokens brings 1 + the sum of the first K rates, and ``cost`` says what its step costs, in plain steps;
    None where nobody knows. What a position brings does not depend on how many come after it, so K is chosen among
    those up to the last position that was seen, and never beyond. Of equal ones the smallest.
    None where no K has both a rate and a cost.
    """
    best = Recommended(0, 1.0)
    tokens, any_known = 1.0, False
    for k, rate in enumerate(rates, start=1):
        if rate is None:
            break
        tokens += rate
        step = cost(k)
        if step is None or step <= 0:
            continue
        any_known = True
        if tokens / step > best.speedup:
            best = Recommended(k, tokens / step)
    return best if any_known else None
