"""Context lengths, parallelism and the budget of tokens: numbers of the plan that must fit the models'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specwatch.vllm import features
from specwatch.vllm.preflight.budget import USUAL_SEQUENCES
from specwatch.vllm.preflight.findings import Finding, refusal, warning
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.shape import shape_of
from specwatch.vllm.releases import Fact, fact, holding

_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""With this variable at 1 vLLM serves longer contexts than a model was made for."""
_EQUAL_PARALLEL = fact("draft_tensor_parallel_size", "0.15.0", "0.31.0")
"""Releases whose only runner of draft models shares the draft out exactly as the target."""
_SLOTS_BY_REQUEST = fact("max_num_batched_tokens", "0.32.0")
"""From here on vLLM sets aside room for one request's draft; before, for that of every request at once."""
_SLOTS_CHECKED = fact("max_num_batched_tokens", "0.16.0")


@dataclass(frozen=True)
class _Stages:
    """A method that a release cannot spread over pipeline stages."""

    method: Fact
    certain: bool
    """Whether every runner of the release refuses it."""


_STAGES = (
    _Stages(fact("eagle3", "0.24.0", "0.25.0"), certain=False),
    _Stages(fact("dflash", "0.24.0", "0.25.0"), certain=False),
)


def check(plan: PlannedStart, target: Model | None, draft: Model | None) -> Iterator[Finding]:
    """Whatever can be told of the two models; a model that cannot be read is None."""
    if target is not None:
        yield from _target_length(plan, target)
        yield from _heads(plan.tensor_parallel, "--tensor-parallel-size", target)
    if draft is not None:
        yield from _heads(plan.draft_tensor_parallel, "the draft's tensor parallelism", draft)
    if target is not None and draft is not None:
        yield from _draft_length(plan, target, draft)
    if plan.speculation is not None:
        yield from _draft_parallel(plan)
        yield from _stages(plan)
        yield from _token_budget(plan)


def _target_length(plan: PlannedStart, target: Model) -> Iterator[Finding]:
    asked, longest = plan.number("--max-model-len"), shape_of(target).longest_context
    if asked and longest and asked > longest and plan.environment.get(_LONGER) != "1":
        text = f"--max-model-len {asked}: {target.name} was made for {longest} tokens, and vLLM refuses more."
        yield refusal("target-length", text, f"Lower it to {longest}.")


def _draft_length(plan: PlannedStart, target: Model, draft: Model) -> Iterator[Finding]:
    """The draft reads the same text as the target; V1 drafts on behind the end of what the draft knows."""
    longest = shape_of(draft).longest_context
    if longest is None or plan.method not in ("draft_model", "mlp_speculator"):
        return
    asked = plan.asks_for("max_model_len")
    if isinstance(asked, int) and asked > longest and plan.environment.get(_LONGER) != "1":
        text = f"max_model_len {asked} of the draft: {draft.name} was made for {longest} tokens, and vLLM refuses more."
        yield refusal("draft-length", text, f"Lower it to {longest} or leave it out.")
        return
    context = plan.number("--max-model-len") or shape_of(target).longest_context
    on_v0 = holding(features.V0_METHODS, plan.method or "", plan.release) is not None
    if context and context > longest:
        beyond = "is not speculated" if on_v0 else "is drafted all the same, by guesswork"
        text = (
            f"{draft.name} was made for {longest} tokens and the server takes {context}: text beyond the {longest} "
            f"{beyond}."
        )
        yield warning("draft-length", text, f"Serve with --max-model-len {longest}, or take a draft of longer context.")


def _heads(parallel: int, what: str, model: Model) -> Iterator[Finding]:
    heads = shape_of(model).heads
    if heads and parallel > 1 and heads % parallel:
        text = f"{what} {parallel}: so many GPUs cannot share out the {heads} attention heads of {model.name}."
        fitting = ", ".join(str(size) for size in range(1, parallel) if heads % size == 0)
        yield refusal("attention-heads", text, f"Take a number that divides {heads}: {fitting}.")


def _draft_parallel(plan: PlannedStart) -> Iterator[Finding]:
    ours, theirs = plan.tensor_parallel, plan.draft_tensor_parallel
    if plan.method != "draft_model" or ours == theirs:
        return
    text = f"draft_tensor_parallel_size {theirs} beside --tensor-parallel-size {ours}:"
    remedy = "Leave draft_tensor_parallel_size out: the draft is then spread as the target is."
    if _EQUAL_PARALLEL.holds(plan.release):
        refused = f"{text} vLLM {plan.release} spreads a draft model as the target, and ends after loading otherwise."
        yield refusal("draft-parallel", refused, remedy)
    elif plan.release.numbers >= (0, 31):
        text += " vLLM's older runner, the only one on CPU, ends after loading; the newer one takes it."
        yield warning("draft-parallel", text, remedy)


def _stages(plan: PlannedStart) -> Iterator[Finding]:
    if plan.pipeline_parallel == 1:
        return
    text = f"--pipeline-parallel-size {plan.pipeline_parallel} with"
    remedy = "Use --tensor-parallel-size instead."
    if plan.asks_for("enable_adaptive_verification"):
        yield refusal(
            "pipeline-parallel", f"{text} enable_adaptive_verification: vLLM refuses the two together.", remedy
        )
    for stages in _STAGES:
        if stages.method.name == plan.method and stages.method.holds(plan.release):
            yield warning(
                "pipeline-parallel", f"{text} {plan.method}: the newer runner of {plan.release} refuses it.", remedy
            )


def _token_budget(plan: PlannedStart) -> Iterator[Finding]:
    """--max-num-batched-tokens: what a step may hold, drafts included."""
    budget, sequences = plan.number("--max-num-batched-tokens"), plan.number("--max-num-seqs")
    if budget is None:
        return
    if sequences and budget < sequences:
        text = f"--max-num-batched-tokens {budget} is less than --max-num-seqs {sequences}, which vLLM refuses."
        yield refusal("token-budget", text, "A step must hold at least one token of every sequence.")
        return
    slots = _slots(plan)
    if _SLOTS_BY_REQUEST.holds(plan.release):
        needed, whose = slots, "one request's draft"
    elif _SLOTS_CHECKED.holds(plan.release):
        needed, whose = slots * (sequences or USUAL_SEQUENCES), f"{sequences or USUAL_SEQUENCES} requests' drafts"
    else:
        return
    if slots and budget <= needed:
        text = f"--max-num-batched-tokens {budget}: vLLM sets {needed} of them aside for {whose} and has none left."
        yield refusal("token-budget", text, f"Raise it above {needed}; 8192 is a usual value.")


def _slots(plan: PlannedStart) -> int:
    """Places of a step that a request's draft takes beside the tokens that are verified."""
    tokens = plan.speculation.num_speculative_tokens or 0 if plan.speculation else 0
    if plan.method == "dflash":
        return tokens
    if plan.method == "draft_model":
        return tokens if plan.asks_for("parallel_drafting") else 1
    if plan.method == "dspark" or plan.asks_for("parallel_drafting"):
        return max(tokens - 1, 0)
    return 0
