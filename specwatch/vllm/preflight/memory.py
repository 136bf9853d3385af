"""What a draft takes of the GPUs' memory: its weights, and its part of the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from specwatch.vllm.preflight.shape import Shape
from specwatch.vllm.preflight.weights import Weights

GIB = 2**30
USUAL_SHARE = 0.10
"""A draft that takes more of the memory displaces so much KV cache that the batch, and the gain, shrink."""


@dataclass(frozen=True)
class Placement:
    """How the models are spread, and what is to fit."""

    tensor_parallel: int
    pipeline_parallel: int
    draft_tensor_parallel: int
    sequences: int
    """Running at a time."""
    context: int
    """Tokens of the longest sequence."""
    target_value_bytes: float
    """Bytes of a number in the target's KV cache."""
    draft_value_bytes: float
    budget: float | None
    """Bytes of each GPU that vLLM may take; None where the GPUs are not known."""


@dataclass(frozen=True)
class MemorySum:
    """Bytes on the GPU that carries the most; None where a model's files do not tell."""

    budget: float | None
    target_weights: float | None
    draft_weights: float
    draft_cache: float
    cached_tokens: int
    """Tokens that the KV cache was counted for."""
    planned_tokens: int
    """Tokens of all sequences at their longest; more than fit when ``cached_tokens`` is less."""
    target_estimated: bool
    """Whether the target's weights were not seen tensor by tensor."""
    draft_estimated: bool

    @property
    def draft(self) -> float:
        """All that the draft takes."""
        return self.draft_weights + self.draft_cache

    @property
    def share(self) -> float | None:
        """The draft's part of the budget; None without one."""
        return self.draft / self.budget if self.budget else None

    @property
    def left(self) -> float | None:
        """What the weights leave for KV cache and working memory; below zero where they do not fit."""
        return None if self.budget is None else self.budget - self.draft_weights - (self.target_weights or 0.0)


def add_up(
    target: Shape, target_weights: Weights | None, draft: Shape, draft_weights: Weights, place: Placement
) -> MemorySum | None:
    """The sum for one plan; None where the draft's configuration does not tell its KV cache.

    Target and draft keep keys and values of the same tokens. When not all planned tokens fit, the cache is what
    the weights leave, shared by both in proportion to what a token takes in each.
    """
    draft_token = draft.cache_bytes_per_token(place.draft_tensor_parallel, place.draft_value_bytes)
    if draft_token is None:
        return None
    target_token = target.cache_bytes_per_token(place.tensor_parallel, place.target_value_bytes)
    on_each = target_weights.size / (place.tensor_parallel * place.pipeline_parallel) if target_weights else None
    own = draft_weights.size / place.draft_tensor_parallel
    planned = place.sequences * place.context
    fitting = planned
    if place.budget is not None and on_each is not None and target_token is not None:
        per_token = draft_token + target_token / place.pipeline_parallel
        fitting = max(0, min(planned, int((place.budget - on_each - own) / per_token))) if per_token else planned
    return MemorySum(
        budget=place.budget,
        target_weights=on_each,
        draft_weights=own,
        draft_cache=fitting * draft_token,
        cached_tokens=fitting,
        planned_tokens=planned,
        target_estimated=target_weights is not None and not target_weights.exact,
        draft_estimated=not draft_weights.exact,
    )


def table(memory: MemorySum, place: Placement) -> str:
    """The sum as a few aligned lines."""
    gpus = place.tensor_parallel * place.pipeline_parallel
    asked = f"{place.sequences} sequences of {place.context} tokens"
    cache = f"draft's KV cache, {asked}"
    if memory.cached_tokens < memory.planned_tokens:
        cache = f"draft's KV cache, {memory.cached_tokens} tokens: what fits of {asked}"
    rows = [
        (f"target's weights{', estimated' if memory.target_estimated else ''}", memory.target_weights),
        (f"draft's weights{', estimated' if memory.draft_estimated else ''}", memory.draft_weights),
        (cache, memory.draft_cache),
        ("draft together", memory.draft),
        ("vLLM may take", memory.budget),
    ]
    width = max(len(name) for name, _ in rows)
    title = f"Memory on each of {gpus} GPUs" if gpus > 1 else "Memory of the GPU"
    lines = [f"  {name:<{width}}  {_size(size)}{_percent(size, memory.budget)}" for name, size in rows]
    return "\n".join([title, *lines])


def _size(size: float | None) -> str:
    return "   unknown" if size is None else f"{size / GIB:6.2f} GiB"


def _percent(size: float | None, budget: float | None) -> str:
    return "" if size is None or not budget or size == budget else f"  {size / budget:6.1%}"
