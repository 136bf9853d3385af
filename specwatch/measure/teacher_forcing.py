"""One pass of target and draft over the same texts: at every token, what would have become of the draft's proposal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specwatch.measure.acceptance_walk import ScoredText
from specwatch.measure.rejection_sampling import distribution, expected_acceptance, greedy, share_drafted

LOGITS_BYTES = 512 * 2**20
"""What logits and probabilities of one chunk may take: a vocabulary of 128,000 in 32 bits leaves 1000 tokens."""
COPIES = 8
"""Tensors of a chunk's size that are alive at once: two of logits, two of probabilities, what is made on the way."""
LONGEST_CHUNK = 512
"""Tokens of each text; longer ones gain nothing."""


@dataclass(frozen=True)
class Text:
    """A prompt and its completion, as tokens."""

    prompt: tuple[int, ...]
    completion: tuple[int, ...]
    counted: int
    """Tokens of the completion up to the end of the answer."""
    own: bool
    """Whether the target wrote it, at the temperature of the evaluation."""


@dataclass(frozen=True)
class Drafting:
    """How tokens are chosen."""

    temperature: float
    sampled: bool
    """Whether the draft draws its proposals (draft_sample_method probabilistic) or takes the likeliest (greedy)."""


def chunk_tokens(batch: int, vocabulary: int) -> int:
    """Tokens of each text that are looked at together, so that a chunk's logits stay within LOGITS_BYTES."""
    return max(1, min(LONGEST_CHUNK, LOGITS_BYTES // (batch * vocabulary * 4 * COPIES)))


def score(target: Any, draft: Any, texts: Sequence[Text], drafting: Drafting) -> list[ScoredText]:
    """Score texts of a batch. ``target`` and ``draft`` are causal language models of transformers on one device.

    Shorter texts are filled up at their end, where nothing looks back at them.
    """
    longest = max(len(text.prompt) + len(text.completion) for text in texts)
    rows = torch.zeros(len(texts), longest, dtype=torch.long, device=target.device)
    for row, text in zip(rows, texts, strict=True):
        tokens = (*text.prompt, *text.completion)
        row[: len(tokens)] = torch.tensor(tokens, device=row.device)
    kept = torch.zeros(rows.shape, dtype=torch.float32, device=rows.device)
    expected = torch.zeros_like(kept)
    own = torch.tensor([text.own for text in texts], device=rows.device)[:, None]
    wanted = _wanted(texts, rows)
    chunk = chunk_tokens(len(texts), int(target.config.get_text_config().vocab_size))
    caches: list[Any] = [None, None]
    for start in range(0, longest - 1, chunk):
        end = min(start + chunk, longest - 1)
        logits = []
        for place, model in enumerate((target, draft)):
            output = _forward(model, input_ids=rows[:, start:end], past_key_values=caches[place])
            caches[place] = output.past_key_values
            logits.append(output.logits)
        here, following = wanted[:, start + 1 : end + 1], rows[:, start + 1 : end + 1]
        if not bool(here.any()):
            continue
        came, proposed = _outcomes(logits[0][here], logits[1][here], following[here], drafting)
        expected[:, start + 1 : end + 1][here] = proposed
        kept[:, start + 1 : end + 1][here] = torch.where(own.expand_as(here)[here], came, proposed)
    return [_scored(text, *both) for text, *both in zip(texts, kept.tolist(), expected.tolist(), strict=True)]


def _wanted(texts: Sequence[Text], rows: Tensor) -> Tensor:
    """Which tokens belong to completions."""
    place = torch.arange(rows.shape[1], device=rows.device)
    begin = torch.tensor([len(text.prompt) for text in texts], device=rows.device)[:, None]
    length = torch.tensor([len(text.completion) for text in texts], device=rows.device)[:, None]
    return (place >= begin) & (place < begin + length)


def _outcomes(ours: Tensor, theirs: Tensor, tokens: Tensor, drafting: Drafting) -> tuple[Tensor, Tensor]:
    """For each token: that it was drafted and kept given that it came; and that any proposal would have been kept."""
    p = distribution(ours, drafting.temperature)
    q = distribution(theirs, drafting.temperature)
    q = q if drafting.sampled else greedy(q)
    return share_drafted(p, q, tokens), expected_acceptance(p, q)


def _scored(text: Text, kept: list[float], expected: list[float]) -> ScoredText:
    begin, end = len(text.prompt), len(text.prompt) + len(text.completion)
    return ScoredText(tuple(kept[begin:end]), tuple(expected[begin:end]), text.counted)


def complete(
    model: Any, prompts: Sequence[Sequence[int]], tokens: int, temperature: float, generator: torch.Generator
) -> list[list[int]]:
    """``tokens`` further tokens for each prompt, past any end of sequence: the caller cuts.

    transformers' own generate would mix in what a model's generation_config.json says of sampling.
    """
    longest = max(len(prompt) for prompt in prompts)
    rows = torch.zeros(len(prompts), longest, dtype=torch.long, device=model.device)
    mask = torch.zeros_like(rows)
    for row, (place, prompt) in zip(rows, enumerate(prompts), strict=True):
        row[longest - len(prompt) :] = torch.tensor(list(prompt), device=row.device)
        mask[place, longest - len(prompt) :] = 1
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache, step, written = None, rows, []
    for _ in range(tokens):
        output = _forward(model, input_ids=step, attention_mask=mask, position_ids=positions, past_key_values=cache)
        cache = output.past_key_values
        p = distribution(output.logits[:, -1], temperature)
        step = p.argmax(dim=-1, keepdim=True) if temperature == 0 else _draw(p, generator)
        written.append(step)
        mask = torch.cat([mask, torch.ones_like(step)], dim=1)
        positions = positions[:, -1:] + 1
    return [[int(token) for token in row] for row in torch.cat(written, dim=1).tolist()]


def _forward(model: Any, **inputs: Any) -> Any:
    with torch.inference_mode():
        return model(**inputs, use_cache=True)


def _draw(p: Tensor, generator: torch.Generator) -> Tensor:
    """One token of each row. Drawn on the CPU, so that a seed gives the same text wherever the model runs."""
    return torch.multinomial(p.cpu(), 1, generator=generator).to(p.device)
