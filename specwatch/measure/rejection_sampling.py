"""Modified rejection sampling: how a target verifies what a draft proposed, so that the output follows the target.

A draft token x, drawn from q, is kept with probability min(1, p(x) / q(x)); the first that is not is replaced by one
from the normalised max(0, p - q), and after K kept ones the target adds a token of its own. The output then follows p
whatever q is, and a position is accepted with probability Σ min(p, q) = 1 - TV(p, q), TV being the total variation
distance. Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative Decoding", algorithm 1, theorem 3.5
and appendix A.1) and Chen et al. 2023 ("Accelerating Large Language Model Decoding with Speculative Sampling",
algorithm 2 and theorem 1) found it at the same time.

Distributions are tensors whose last dimension is the vocabulary. Greedy decoding is the case of distributions that
have all their mass on one token, so nothing here asks for a temperature but ``distribution``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specwatch.errors import InputError

PADDING = -1
"""Stands after the last token of a row whose draft was rejected early."""


@dataclass(frozen=True)
class Verified:
    """What one verifying step gives for every row of a batch."""

    accepted: Tensor
    """Draft tokens kept, 0 to K; shape (batch)."""
    tokens: Tensor
    """The tokens put out: those kept, then one of the target; PADDING after them. Shape (batch, K + 1)."""


def distribution(logits: Tensor, temperature: float) -> Tensor:
    """Probabilities of a model's logits; at temperature 0 all mass is on the largest, the first one where several tie.

    Logits of -inf are tokens that cannot come. InputError where a row has no token that can, or a NaN.
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    best, token = logits.max(dim=-1, keepdim=True)
    if not bool(torch.isfinite(best).all()):
        raise InputError(
            "logits without a finite maximum (NaN, inf, or nothing but -inf): the model's output is damaged"
        )
    if temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, token, 1.0)
    # The largest becomes 0 before it is divided: a tiny temperature would overflow.
    return torch.softmax((logits - best) / temperature, dim=-1)


def greedy(q: Tensor) -> Tensor:
    """The distribution of a draft that always proposes its most likely token: vLLM's default at every temperature."""
    return torch.zeros_like(q).scatter_(-1, q.argmax(dim=-1, keepdim=True), 1.0)


def expected_acceptance(p: Tensor, q: Tensor) -> Tensor:
    """Σ min(p, q): probability that a token drawn from q is kept. Shape without the vocabulary."""
    return torch.minimum(p, q).sum(dim=-1).clamp(max=1.0)


def acceptance(p: Tensor, q: Tensor, drafted: Tensor) -> Tensor:
    """min(1, p(x) / q(x)) of the drafted tokens x: 1 for one that p gives mass and q none, 0 where p has none."""
    ours, theirs = _of(p, drafted), _of(q, drafted)
    return torch.where(ours >= theirs, (ours > 0).to(ours.dtype), ours / theirs.clamp(min=torch.finfo(ours.dtype).tiny))


def share_drafted(p: Tensor, q: Tensor, emitted: Tensor) -> Tensor:
    """min(1, q(x) / p(x)): probability that a token x of the output was a draft token that was kept.

    The joint probability of drafting x and keeping it is min(p(x), q(x)), and the output follows p (Leviathan et al.
    2023, A.1): so text of the target alone tells what a draft would have met. At temperature 0 it is 1 where the
    draft's choice is the token, and 0 elsewhere.
    """
    return acceptance(q, p, emitted)


def corrected(p: Tensor, q: Tensor) -> Tensor:
    """The normalised max(0, p - q), from which a rejected token is replaced; p where p = q, which rejects nothing."""
    rest = (p - q).clamp(min=0.0)
    mass = rest.sum(dim=-1, keepdim=True)
    return torch.where(mass > 0, rest / mass.clamp(min=torch.finfo(p.dtype).tiny), p)


def verify(p: Tensor, q: Tensor, drafted: Tensor, generator: torch.Generator | None = None) -> Verified:
    """One step: keep draft tokens from left to right until one is rejected, then add one of the target.

    ``p`` has shape (batch, K + 1, vocabulary), the last position being the one after all draft tokens; ``q`` (batch,
    K, vocabulary); ``drafted`` (batch, K). The same ``generator`` state gives the same outcome. InputError where the
    shapes do not fit.
    """
    batch, k = drafted.shape
    if p.shape[:2] != (batch, k + 1) or q.shape != (batch, k, p.shape[-1]):
        raise InputError(
            f"p {tuple(p.shape)}, q {tuple(q.shape)} and drafted {tuple(drafted.shape)} do not fit together"
        )
    chance = torch.rand(drafted.shape, generator=generator, dtype=p.dtype, device=p.device)
    kept = chance < acceptance(p[:, :k], q, drafted)  # chance is below 1, so what is certain is always kept
    accepted = kept.long().cumprod(dim=1).sum(dim=1)
    replacements = torch.cat([corrected(p[:, :k], q), p[:, k:]], dim=1)
    chosen = replacements[torch.arange(batch, device=p.device), accepted]
    added = torch.multinomial(chosen, 1, generator=generator)
    place = torch.arange(k + 1, device=p.device).expand(batch, k + 1)
    tokens = torch.cat([drafted, added], dim=1)
    tokens = torch.where(place == accepted[:, None], added, tokens)
    return Verified(accepted, tokens.masked_fill(place > accepted[:, None], PADDING))


def _of(probabilities: Tensor, tokens: Tensor) -> Tensor:
    return probabilities.gather(-1, tokens[..., None]).squeeze(-1)
