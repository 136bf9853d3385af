"""What single methods need: a head that fits, a prediction layer in the target, a package."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from specwatch.vllm.preflight.findings import Finding, refusal
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.shape import shape_of
from specwatch.vllm.preflight.vocabulary import HETEROGENEOUS

_PREDICTED = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "n_predict")
"""Where configurations keep the number of tokens that a built-in head predicts at once."""
_HEADS_WITHOUT_A_NUMBER = ("mimo_v2", "gemma4", "longcat", "step3p", "pangu", "inkling", "dots3")
"""Beginnings of the kinds of model whose prediction heads vLLM knows without such a number."""
_ARCTIC = "arctic_inference"
_HIDDEN_FROM_TARGET = ("eagle", "eagle3")


def check(plan: PlannedStart, target: Model | None, draft: Model | None) -> Iterator[Finding]:
    """Whatever can be told of the two models; a model that cannot be read is None."""
    if plan.asks_for(HETEROGENEOUS) and plan.method != "draft_model":
        text = f"{HETEROGENEOUS} with method {plan.method}: vLLM translates for draft models only."
        yield refusal("heterogeneous-method", text, "Leave it out.")
    if plan.method == "suffix":
        yield from _suffix(plan)
    elif plan.method in _HIDDEN_FROM_TARGET and target is not None and draft is not None:
        yield from _hidden_size(plan, target, draft)
    elif plan.method in ("mtp", "mlp_speculator") or (plan.method or "").endswith("_mtp"):
        yield from _predicted(plan, target if plan.draft in (None, plan.target) else draft)


def _suffix(plan: PlannedStart) -> Iterator[Finding]:
    if plan.installed and importlib.util.find_spec(_ARCTIC) is None:
        text = "method suffix needs the package arctic-inference, which is not installed beside vLLM."
        yield refusal("arctic-inference", text, "pip install arctic-inference==0.1.1")


def _hidden_size(plan: PlannedStart, target: Model, draft: Model) -> Iterator[Finding]:
    """A head reads the target's inner states: their size must be the one it was trained on."""
    own = draft.config.get("target_hidden_size") if plan.method == "eagle3" else None
    expected, actual = own or shape_of(draft).hidden_size, shape_of(target).hidden_size
    if expected and actual and expected != actual:
        text = (
            f"{draft.name} reads inner states of {expected} numbers, those of {target.name} have {actual}: it was "
            "trained for another model, and would bring vLLM down at the first request, if not before."
        )
        yield refusal("hidden-size", text, f"Take a head that was trained for {target.name}.")


def _predicted(plan: PlannedStart, model: Model | None) -> Iterator[Finding]:
    """A built-in head predicts a fixed number of tokens, and runs as often as K holds that number."""
    if model is None or plan.speculation is None:
        return
    at_once = next((value for key in _PREDICTED if (value := _value(model, key))), None)
    if at_once is None:
        yield from _without_head(plan, model)
        return
    tokens = plan.speculation.num_speculative_tokens
    if tokens and tokens > at_once and tokens % at_once:
        text = f"num_speculative_tokens {tokens}: the head of {model.name} predicts {at_once} tokens at once."
        lower, upper = tokens - tokens % at_once, tokens + at_once - tokens % at_once
        yield refusal("predicted-tokens", text, f"vLLM wants a multiple of {at_once}: {lower} or {upper}.")


def _without_head(plan: PlannedStart, model: Model) -> Iterator[Finding]:
    kind = str(model.config.get("model_type", ""))
    if plan.method == "mlp_speculator" or not model.config or kind.startswith(_HEADS_WITHOUT_A_NUMBER):
        return
    if kind.endswith(("_mtp", "_assistant")):
        return
    text = (
        f"method {plan.method}: {model.name} carries no prediction head; its config.json has none of "
        f"{', '.join(_PREDICTED)}."
    )
    yield refusal(
        "no-prediction-head", text, "Take a draft model, an EAGLE head or n-gram (--spec-method ngram).", True
    )


def _value(model: Model, key: str) -> int | None:
    """A positive number of the configuration, outside or inside the language model's part."""
    for config in (model.config, model.text_config):
        value = config.get(key)
        if type(value) is int and value > 0:
            return value
    return None
