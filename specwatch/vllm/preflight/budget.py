"""Judges the draft's memory: at most a tenth of what vLLM may take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from specwatch.vllm.preflight.findings import Finding, note, warning
from specwatch.vllm.preflight.gpu import gpu_memories
from specwatch.vllm.preflight.memory import GIB, USUAL_SHARE, MemorySum, Placement, add_up
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.shape import shape_of
from specwatch.vllm.preflight.weights import Weights
from specwatch.vllm.releases import Release

USUAL_SEQUENCES = 256
"""vLLM's --max-num-seqs on most GPUs; on the largest it is 1024, where the KV cache is the limit anyway."""
_UTILIZATION = ((Release.parse("0.20.0"), 0.92), (Release.parse("0.4.0"), 0.9))
"""vLLM's --gpu-memory-utilization from a release on (vLLM pull request 38284, in April 2026, raised it)."""
_VALUE_BYTES = (("fp8", 1.0), ("int8", 1.0), ("int4", 0.5), ("nvfp4", 0.5625), ("float32", 4.0))
"""Beginning of a KV cache's kind and the bytes of one number; nvfp4 has a byte of scale for 16 halves of one."""
_SIXTEEN_BITS = 2.0
_NO_CACHE = ("medusa", "mlp_speculator")
"""Methods whose draft keeps nothing for a token."""


@dataclass(frozen=True)
class Judged:
    """The sum, how it was placed, and what is to be said of it."""

    memory: MemorySum
    placement: Placement


def judge(
    plan: PlannedStart, target: Model, draft: Model, ours: Weights | None, theirs: Weights | None
) -> Judged | None:
    """Add up the draft's memory; None where its weights or its configuration do not tell."""
    if theirs is None:
        return None
    shape = shape_of(target)
    place = placement(plan, plan.number("--max-model-len") or shape.longest_context or 0)
    own = shape_of(draft)
    if plan.method in _NO_CACHE:
        own = replace(own, cached_layers=0)
    memory = add_up(shape, ours, own, theirs, place)
    return Judged(memory, place) if memory else None


def placement(plan: PlannedStart, context: int) -> Placement:
    """Where the plan puts the models, and what it wants to fit."""
    memories = [plan.gpu_memory] * _gpus(plan) if plan.gpu_memory else _present(plan)
    kind = plan.text("--kv-cache-dtype") or "auto"
    return Placement(
        tensor_parallel=plan.tensor_parallel,
        pipeline_parallel=plan.pipeline_parallel,
        draft_tensor_parallel=plan.draft_tensor_parallel,
        sequences=plan.number("--max-num-seqs") or USUAL_SEQUENCES,
        context=context,
        target_value_bytes=_value_bytes(kind, plan),
        draft_value_bytes=_value_bytes(str(plan.asks_for("kv_cache_dtype") or kind), plan),
        budget=min(memories[: _gpus(plan)]) * utilization(plan) if memories else None,
    )


def findings(judged: Judged, draft: Model) -> Iterator[Finding]:
    """What the sum means."""
    memory = judged.memory
    if memory.left is not None and memory.left <= 0 and memory.target_weights is not None:
        text = (
            f"The weights alone take {(memory.target_weights + memory.draft_weights) / GIB:.1f} GiB of each GPU, and "
            f"vLLM may take {(memory.budget or 0) / GIB:.1f} GiB: nothing is left for the KV cache."
        )
        yield warning("memory-full", text, "More GPUs (--tensor-parallel-size), a quantised model, or a smaller one.")
    elif memory.share is None:
        text = f"The draft takes {memory.draft / GIB:.2f} GiB of each GPU; what part that is depends on the GPU."
        yield note("gpu-unknown", text, "No GPU was found here: give its memory with --gpu-memory 80GiB.")
    elif memory.share > USUAL_SHARE:
        text = (
            f"{draft.name} takes {memory.share:.0%} of the memory that vLLM may take, more than the usual "
            f"{USUAL_SHARE:.0%}: that much less KV cache, and smaller batches."
        )
        remedy = (
            "A smaller draft, an EAGLE head or the target's own MTP head takes a fraction of it, n-gram "
            "(--spec-method ngram) nothing."
        )
        yield warning("draft-memory", text, remedy)


def utilization(plan: PlannedStart) -> float:
    """The share of each GPU that vLLM may take."""
    try:
        given = float(plan.text("--gpu-memory-utilization") or 0.0)
    except ValueError:
        given = 0.0
    usual = next((share for since, share in _UTILIZATION if since.numbers <= plan.release.numbers), 0.9)
    return given if 0 < given <= 1 else usual


def _gpus(plan: PlannedStart) -> int:
    return plan.tensor_parallel * plan.pipeline_parallel


def _present(plan: PlannedStart) -> list[int]:
    return gpu_memories(plan.environment) if plan.installed else []


def _value_bytes(kind: str, plan: PlannedStart) -> float:
    """Bytes of a number in a KV cache; ``auto`` is the model's own kind."""
    chosen = plan.text("--dtype") or "auto" if kind == "auto" else kind
    return next((size for start, size in _VALUE_BYTES if chosen.startswith(start)), _SIXTEEN_BITS)
