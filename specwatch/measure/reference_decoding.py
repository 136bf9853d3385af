"""Speculative decoding as the papers write it, slowly: what predictions of acceptance are checked against.

Every step reads the whole text anew, so that nothing but the models and ``rejection_sampling`` decides what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specwatch.measure.rejection_sampling import distribution, greedy, verify
from specwatch.measure.teacher_forcing import Drafting


@dataclass(frozen=True)
class Decoded:
    """A text, and what speculation did on the way."""

    tokens: tuple[int, ...]
    """Those that were asked for."""
    steps: int
    """Each of which drafted K tokens."""
    accepted: tuple[int, ...]
    """By position: steps that accepted it and all before it."""


def decode(
    target: Any,
    draft: Any,
    prompt: Sequence[int],
    tokens: int,
    k: int,
    drafting: Drafting,
    generator: torch.Generator,
    first: int = 1,
    ends: frozenset[int] = frozenset(),
) -> Decoded:
    """``tokens`` further tokens, or fewer where one of ``ends`` comes; the first ``first`` of them without a draft.

    As in vLLM, the last step drafts beyond the end, and what it accepts there counts.
    """
    text = list(prompt)
    end = len(prompt) + tokens
    steps, accepted = 0, [0] * k
    for _ in range(first):
        p = _distributions(target, text, 1, drafting.temperature)
        text.append(int(torch.multinomial(p[0, 0], 1, generator=generator)))
    while len(text) < end and not ends.intersection(text[len(prompt) :]):
        proposed, q = _propose(draft, text, k, drafting, generator)
        p = _distributions(target, [*text, *proposed], k + 1, drafting.temperature)
        verified = verify(p, q, torch.tensor([proposed]), generator)
        kept = int(verified.accepted)
        text += verified.tokens[0, : kept + 1].tolist()
        steps += 1
        for position in range(kept):
            accepted[position] += 1
    return Decoded(_until(text[len(prompt) : end], ends), steps, tuple(accepted))


def _until(tokens: Sequence[int], ends: frozenset[int]) -> tuple[int, ...]:
    """Tokens up to the first that ends, with it."""
    end = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[: end + 1])


def _propose(
    draft: Any, text: Sequence[int], k: int, drafting: Drafting, generator: torch.Generator
) -> tuple[list[int], Tensor]:
    """K tokens of the draft, each after those before it, and what each was drawn from."""
    proposed: list[int] = []
    drawn_from = []
    for _ in range(k):
        q = _distributions(draft, [*text, *proposed], 1, drafting.temperature)
        q = q if drafting.sampled else greedy(q)
        proposed.append(int(torch.multinomial(q[0, 0], 1, generator=generator)))
        drawn_from.append(q)
    return proposed, torch.cat(drawn_from, dim=1)


def _distributions(model: Any, text: Sequence[int], last: int, temperature: float) -> Tensor:
    """What a model says after each of the last tokens of a text; shape (1, last, vocabulary)."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([list(text)]), use_cache=False).logits
    return distribution(logits[:, -last:].double(), temperature)
