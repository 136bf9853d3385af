"""The least time a decode step can take, by what it reads and what it computes.

Bytes over the memory's bandwidth, or operations over the GPU's arithmetic, whichever takes longer: the roofline of
Williams, Waterman and Patterson 2009 ("Roofline: an insightful visual performance model for multicore architectures").
Real steps also launch kernels, talk between GPUs and never reach a sheet's figures: the bound is a floor, not a
forecast. Ratios of bounds, v and c, forecast better, because much of that is in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specwatch.errors import InputError
from specwatch.signals.gpus import Gpu
from specwatch.signals.model_cost import ModelCost

LARGEST_BATCH = 2**16
"""Sequences at a time: a hundred times what servers run."""


@dataclass(frozen=True)
class Hardware:
    """GPUs that share every layer of a model."""

    gpu: Gpu
    tensor_parallel: int = 1

    @property
    def memory(self) -> float:
        """Bytes, all of them together."""
        return self.gpu.memory * self.tensor_parallel


@dataclass(frozen=True)
class Step:
    """The bound of one step."""

    memory_seconds: float
    """To read what it needs."""
    compute_seconds: float
    """To compute it."""

    @property
    def seconds(self) -> float:
        """The longer of the two: reading and computing overlap."""
        return max(self.memory_seconds, self.compute_seconds)

    @property
    def compute_bound(self) -> bool:
        """Whether arithmetic is what it waits for."""
        return self.compute_seconds >= self.memory_seconds


def step(model: ModelCost, hardware: Hardware, batch: int = 1, context: int = 0, tokens: int = 1) -> Step:
    """One step of ``batch`` sequences of ``context`` tokens, each of them going on by ``tokens``.

    A plain step has one token, one that verifies k draft tokens k + 1. Tensor parallelism divides weights and
    arithmetic; communication is left out.
    """
    if batch < 1 or tokens < 1 or context < 0:
        raise InputError(
            f"a step of {batch} sequences by {tokens} tokens after {context}: none of them can be that few"
        )
    gpus = hardware.tensor_parallel
    weights = model.always_read + (model.experts.read(batch * tokens) if model.experts else 0.0)
    cache = batch * model.cache.read(context, gpus) if model.cache else 0.0
    attention = model.cache.operations(context) if model.cache else 0.0
    operations = batch * tokens * (model.operations + attention)
    return Step(
        memory_seconds=(weights / gpus + cache) / hardware.gpu.bandwidth,
        compute_seconds=operations / gpus / hardware.gpu.flops(model.compute_bits),
    )


def compute_bound_from(model: ModelCost, hardware: Hardware, context: int = 0, tokens: int = 1) -> int | None:
    """The smallest batch whose steps wait for arithmetic; None where there is none.

    With long contexts the KV cache to read grows as fast as the arithmetic, and reading stays the longer. Computing
    grows in proportion to the batch, reading more slowly, so there is one crossing at most.
    """
    if not step(model, hardware, LARGEST_BATCH, context, tokens).compute_bound:
        return None
    low, high = 0, LARGEST_BATCH
    while high - low > 1:
        middle = (low + high) // 2
        if step(model, hardware, middle, context, tokens).compute_bound:
            high = middle
        else:
            low = middle
    return high


def verifying_cost(model: ModelCost, hardware: Hardware, k: int, batch: int = 1, context: int = 0) -> float:
    """v: a step that verifies k draft tokens of every sequence ÷ a plain step; 1 while reading is what takes time."""
    return step(model, hardware, batch, context, k + 1).seconds / step(model, hardware, batch, context).seconds


def draft_cost(model: ModelCost, draft: ModelCost, hardware: Hardware, batch: int = 1, context: int = 0) -> float:
    """c: a step of the draft ÷ a plain step of the target, on the same GPUs."""
    return step(draft, hardware, batch, context).seconds / step(model, hardware, batch, context).seconds


def break_even_acceptance(k: int, v: float, c: float) -> float:
    """Acceptance rate at which S = (1 + k·r) / (v + k·c) is 1; above 1 nothing can pay."""
    return (v - 1.0 + k * c) / k


def most_sequences(model: ModelCost, hardware: Hardware, context: int, taken: float = 0.0) -> int | None:
    """How many sequences of that length fit beside the weights and ``taken`` further bytes; None where that is unknown.

    Of the whole memory: a server keeps a tenth of it or more for itself.
    """
    each = model.cache.read(context, hardware.tensor_parallel) if model.cache else 0.0
    if not each or math.isinf(hardware.gpu.memory):
        return None
    free = hardware.gpu.memory - (model.size + taken) / hardware.tensor_parallel
    return max(0, int(free / each))


def share_of_bound(tpot: float, bound: Step) -> float:
    """How near a measured time per output token, in seconds, is to the bound: 1 reaches it.

    Speculation can exceed 1, because a step then puts out several tokens.
    """
    if tpot <= 0:
        raise InputError(f"a time per output token of {tpot:g} s: it must be above 0")
    return bound.seconds / tpot


@dataclass(frozen=True)
class Bound:
    """What a server's steps are held against: its model, on its GPUs."""

    model: ModelCost
    hardware: Hardware

    def share(self, step_seconds: float, batch: float, tokens: float) -> float:
        """Time that a step takes at least ÷ the time that it takes: 1 reaches the bound.

        ``batch`` requests go on by ``tokens`` each, drafts included, on the mean of many steps. The KV cache is left
        out, as no counter tells how long sequences are: with long ones the server is nearer to its bound than that.
        """
        at_least = step(self.model, self.hardware, max(1, round(batch)), tokens=max(1, round(tokens)))
        return share_of_bound(step_seconds, at_least)
