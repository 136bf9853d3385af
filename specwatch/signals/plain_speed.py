"""How fast plain decoding is at each batch size, remembered from servers that serve the same model without speculation.

Twins rarely run at the same batch size at the same moment. So what they did is kept by batch size, in bins that are
even on a logarithmic scale, and looked up at the batch size of the server that is compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specwatch.signals.window import Increments
from specwatch.vllm.metrics import SPECULATION, Counter

BINS_PER_DOUBLING = 2
"""A bin spans a factor of 1.41 in batch size, over which a step of a memory-bound server takes nearly the same time."""

MEMORY_TOKENS = 200_000.0
"""Tokens that a bin remembers, older ones fading: half an hour of 100 tokens a second."""

LEAST_TOKENS = 1000.0
"""Tokens below which a bin says nothing: a handful of answers."""

WIDEST = 2.0
"""Doublings between neighbouring batch sizes that are bridged: over a factor of four a step's time bends little."""

SMALLEST = 2.0**-10
"""Batch sizes below it share a bin: a server that decodes for less than four seconds an hour."""

LARGEST = 1 << 14
"""More requests than any server runs at once."""


@dataclass
class _Bin:
    seconds: float = 0.0
    tokens: float = 0.0
    batch: float = 0.0
    """Batch sizes times tokens."""


class PlainSpeed:
    """Feed it every scrape's increments of each twin, engine by engine; its memory does not grow."""

    def __init__(self) -> None:
        self._bins: dict[int, _Bin] = {}

    def observe(self, engine: Increments) -> None:
        """Take in what one engine without speculation did since the scrape before.

        One that drafts is left out. Without drafts every step gives one token, so mean ITL is time per token.
        """
        seconds = engine.counts.get(Counter.DECODE_STEP_SECONDS, 0.0)
        tokens = engine.counts.get(Counter.DECODE_STEPS, 0.0)
        if any(engine.counts.get(counter, 0.0) > 0 for counter in SPECULATION):
            return
        batch_size = seconds / engine.seconds if engine.seconds > 0 else 0.0
        if not (0 < batch_size < LARGEST and 0 < tokens < math.inf):
            return
        bin_ = self._bins.setdefault(_number(batch_size), _Bin())
        fade = min(1.0, MEMORY_TOKENS / (bin_.tokens + tokens))
        bin_.seconds = (bin_.seconds + seconds) * fade
        bin_.tokens, bin_.batch = (bin_.tokens + tokens) * fade, (bin_.batch + batch_size * tokens) * fade

    def seconds(self, batch_size: float) -> float | None:
        """Seconds per token at this batch size; None where twins ran at no such size.

        Between neighbouring bins it is interpolated; beyond the smallest and the largest, by a bin at most, it is
        theirs.
        """
        if batch_size <= 0:
            return None
        at = math.log2(batch_size)
        curve = [
            (math.log2(entry.batch / entry.tokens), entry.seconds / entry.tokens)
            for _, entry in sorted(self._bins.items())
            if entry.tokens >= LEAST_TOKENS
        ]
        reach = 1 / BINS_PER_DOUBLING
        below = [point for point in curve if point[0] <= at]
        above = [point for point in curve if point[0] >= at]
        if below and above:
            (x0, y0), (x1, y1) = below[-1], above[0]
            if x1 - x0 > WIDEST:
                return y0 if at - x0 <= reach else y1 if x1 - at <= reach else None
            return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)
        nearest = below[-1] if below else above[0] if above else None
        return nearest[1] if nearest and abs(at - nearest[0]) <= reach else None


def _number(batch_size: float) -> int:
    return math.floor(BINS_PER_DOUBLING * math.log2(max(batch_size, SMALLEST)))
