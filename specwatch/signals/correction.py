"""Known biases of vLLM's counters, and what the counters let one say about them: next to the raw value, never instead.

**Dummy drafts.** From 0.25 on, a request admitted with one token left to compute (its prompt was in the prefix cache,
or it resumes) has K dummy tokens verified along with it, booked as a draft of which everything was rejected. That step
gives the request's first token, so it is no decode step: D drafts in S decode steps, D above S, hold at least D - S
dummies, and exactly so many where every decode step is drafted. Without them

    rate = A / (N · S/D) = r · D/S        length = 1 + A/S

Where some decode steps are not drafted (n-gram misses, a schedule at K = 0), dummies hide behind them: what is left is
corrected too little, never too much. Counters: drafts, draft tokens, accepted tokens, decode steps.

**Truncation.** Accepted tokens behind a stop or max_tokens are counted and thrown away. Every step gives one token of
its own, so of G generated tokens, F of them first ones, G - F - S were accepted and delivered, and A - (G - F - S)
were thrown away. Exact wherever G, F and S are exported; V0 counts one token a step as generated, whatever it was.

**Misses booked as drafts.** Where drafts are padded to K (ngram_gpu, and n-gram on the V2 model runner from 0.32 on),
a step without a match counts as K rejected tokens. No counter tells a miss from a draft whose first token was rejected,
so the acceptance of real drafts cannot be had. It is at least the raw rate, and at most what follows when every draft
that lost its first token was a miss: ``most_without_misses``.
"""

from __future__ import annotations

from collections.abc import Sequence

from specwatch.signals.formula import Ratio
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

_NEEDED = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Counter.DECODE_STEPS})


def rate_without_dummies(engines: Sequence[Increments], min_drafts: float) -> float | None:
    """Acceptance rate without the dummies that show; the raw rate where none do. None without enough drafts."""
    counted = _drafted(engines, min_drafts)
    if counted is None:
        return None
    drafts, tokens, accepted, steps = counted
    return accepted / tokens * max(1.0, drafts / steps)


def length_without_dummies(engines: Sequence[Increments], min_drafts: float) -> float | None:
    """Acceptance length without the dummies that show; the raw length where none do. None without enough drafts."""
    counted = _drafted(engines, min_drafts)
    if counted is None:
        return None
    drafts, _, accepted, steps = counted
    return 1 + accepted / min(drafts, steps)


def _drafted(engines: Sequence[Increments], min_drafts: float) -> tuple[float, float, float, float] | None:
    """Drafts, draft tokens, accepted tokens and decode steps of the engines that count them all."""
    members = [engine.counts for engine in engines if engine.counts.keys() >= _NEEDED]
    drafts, tokens, accepted, steps = (
        sum([counts[counter] for counts in members])
        for counter in (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Counter.DECODE_STEPS)
    )
    # Fewer steps than half of the drafts: then hardly a request decoded, and what is left says nothing of its drafts.
    if drafts < min_drafts or steps < max(min_drafts, drafts / 2) or tokens <= 0:
        return None
    return drafts, tokens, accepted, steps


def most_without_misses(engines: Sequence[Increments]) -> float | None:
    """Upper limit of the acceptance rate of drafts that were no misses; None without an accepted first token."""
    members = [m for m in engines if m.accepted_per_position]
    found = _drafted(members, min_drafts=1.0)
    first = sum([m.accepted_per_position[0] for m in members])
    if found is None or first <= 0:
        return None
    drafts, tokens, accepted, _ = found
    return accepted / (tokens * first / drafts)


def delivered_rate(min_draft_tokens: float) -> Ratio:
    """Accepted tokens that reached the request ÷ draft tokens."""
    return Ratio(
        {Counter.GENERATION_TOKENS: 1.0, Counter.FIRST_TOKENS: -1.0, Counter.DECODE_STEPS: -1.0},
        {Counter.DRAFT_TOKENS: 1.0},
        at_least={Counter.DRAFT_TOKENS: min_draft_tokens},
        is_share=True,
    )


def truncated_share(min_accepted_tokens: float) -> Ratio:
    """Accepted tokens that were thrown away behind a request's end ÷ accepted tokens."""
    return Ratio(
        {
            Counter.ACCEPTED_TOKENS: 1.0,
            Counter.DECODE_STEPS: 1.0,
            Counter.FIRST_TOKENS: 1.0,
            Counter.GENERATION_TOKENS: -1.0,
        },
        {Counter.ACCEPTED_TOKENS: 1.0},
        at_least={Counter.ACCEPTED_TOKENS: min_accepted_tokens},
        is_share=True,
    )
