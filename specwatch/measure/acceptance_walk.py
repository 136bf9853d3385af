"""What speculative decoding would have counted on a text, step by step, for any K, from one look at each token.

Live, a step begins where the one before it ended: after its accepted tokens and the one that the target added. So
positions of a text do not weigh alike: a step seldom begins inside a stretch that the draft gets right. This follows
the steps over the text with their probabilities, which is exact, needs no random numbers, and gives every K at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScoredText:
    """A completion, token by token."""

    kept: tuple[float, ...]
    """Probability that this token of the text was drafted and kept, had the draft proposed at it."""
    expected: tuple[float, ...]
    """Probability that what the draft proposes there is kept, whichever token comes."""
    counted: int
    """Tokens up to the end of the answer; further ones are only what the last step looks ahead to."""


@dataclass(frozen=True)
class Counts:
    """Expected counts of K draft tokens a step, by position."""

    drafts: tuple[float, ...]
    """Steps that proposed a token there, of which the outcome is known."""
    accepted: tuple[float, ...]
    """Of them, those that accepted it and all before it."""


def walk(text: ScoredText, k: int, first: int = 1) -> Counts:
    """Expected counts over one text.

    ``first`` is the token that the first step proposes: vLLM's prefill gives token 0 without a draft, so its first
    draft is for token 1; Hugging Face's assisted generation drafts from token 0 on.

    The text is the target's own. Given that a token came, it was an accepted draft with probability ``kept``,
    independently of the others; and after accepted tokens the draft's own proposals are the text, so what it would
    go on with is what it says when it reads the text. A later position is accepted with the probability that all
    before it were kept, times ``expected``, which varies less than ``kept`` and has the same mean.
    """
    begins = [0.0] * (text.counted + k + 1)
    begins[min(first, text.counted)] = 1.0
    drafts, accepted = [0.0] * k, [0.0] * k
    length = len(text.kept)
    for start in range(first, text.counted):
        weight, reached = begins[start], begins[start]
        if weight == 0.0:
            continue
        for position in range(k):
            token = start + position
            if token >= length:
                break
            drafts[position] += weight
            accepted[position] += reached * text.expected[token]
            begins[token + 1] += reached * (1.0 - text.kept[token])
            reached *= text.kept[token]
        else:
            begins[start + k + 1] += reached
    return Counts(tuple(drafts), tuple(accepted))
