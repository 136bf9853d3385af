"""What each way to draft needs, takes and is good for: what somebody has to know who chooses one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specwatch.vllm import features
from specwatch.vllm.releases import Fact, Release, coming, ended, holding


@dataclass(frozen=True)
class Guide:
    """A method in words that hold whatever the release."""

    needs: str
    memory: str
    """What it takes of the GPU's memory unless it says otherwise."""
    good_for: str


_MTP = Guide(
    "a target whose checkpoint holds such a head; K up to its depth, or a multiple",
    "the head that the checkpoint brings, and a KV cache for its layers",
    "models trained with one (DeepSeek, GLM, Qwen3-Next, MiMo, ERNIE): high acceptance for nothing to prepare",
)
GUIDES: Mapping[str, Guide] = {
    "draft_model": Guide(
        "a small model with the target's tokenizer",
        "all weights of the draft, and a KV cache for all its layers",
        "families that come in many sizes: a draft of a few percent of the target's size, and nothing to train",
    ),
    "ngram": Guide(
        "nothing but text that repeats its prompt",
        "none",
        "answers that quote: summaries, retrieval, edits of code. Nearly free where they don't",
    ),
    "ngram_gpu": Guide(
        "nothing but text that repeats its prompt",
        "a table of every running request's tokens",
        "the same as ngram in large batches, where searching on the CPU would hold the GPU up",
    ),
    "suffix": Guide(
        "the arctic-inference package",
        "none; main memory, for trees of past answers",
        "agents and other traffic that repeats earlier answers, not only its prompt",
    ),
    "eagle": Guide(
        "a head trained for this target",
        "one layer and its KV cache; embedding and output are the target's",
        "targets that somebody has trained a head for: accepts more than a draft model, at less memory",
    ),
    "eagle3": Guide(
        "a head trained for this target",
        "one layer, its own output over a reduced vocabulary, and its KV cache",
        "the best acceptance of the common methods where a head exists; chat, code and reasoning alike",
    ),
    "mtp": _MTP,
    "deepseek_mtp": _MTP,
    "ernie_mtp": _MTP,
    "qwen3_next_mtp": _MTP,
    "medusa": Guide(
        "heads trained for this target, one a position",
        "the heads; no KV cache",
        "heads that are there already: newer methods accept more",
    ),
    "mlp_speculator": Guide(
        "a speculator trained for this target",
        "the speculator; no KV cache",
        "IBM's accelerators for Llama and Granite, on old releases",
    ),
    "dflash": Guide(
        "a block-diffusion draft trained for this target; an attention backend that is not causal",
        "a few layers and their KV cache",
        "large K: the whole block is drafted in one pass, whatever its length",
    ),
    "dspark": Guide(
        "a block draft trained for this target, in its checkpoint or beside it",
        "a few layers and their KV cache",
        "large K in one pass, and with enable_adaptive_verification fewer tokens to verify under load",
    ),
    "custom_class": Guide(
        "a class of your own, importable where vLLM runs, as model",
        "whatever the class takes",
        "research: the interface is experimental",
    ),
    "extract_hidden_states": Guide(
        "a connector that stores what is extracted",
        "a cache for the hidden states",
        "collecting training data for a head; it makes nothing faster",
    ),
}


@dataclass(frozen=True)
class Method:
    """One method on one release."""

    name: str
    since: str
    """The release from which it has worked without a break."""
    engine: str
    """V0 or V1."""
    guide: Guide


def methods(release: Release) -> list[Method]:
    """Every method that a release can run, the usual ones first."""
    return [
        Method(name, str(_fact(name, release).since), engine(name, release), GUIDES[name])
        for name in GUIDES
        if holding(features.METHODS, name, release)
    ]


def missing(release: Release) -> dict[str, str]:
    """Methods that a release cannot run, each with the reason in a few words."""
    absent = [name for name in GUIDES if not holding(features.METHODS, name, release)]
    return {name: reason for name in absent if (reason := _absence(name, release))}


def engine(method: str, release: Release) -> str:
    """The engine that runs a method on a release."""
    return "V0" if holding(features.V0_METHODS, method, release) else "V1"


def _fact(name: str, release: Release) -> Fact:
    fact = holding(features.METHODS, name, release)
    assert fact is not None  # noqa: S101 - asked for what was found a line before
    return fact


def _absence(name: str, release: Release) -> str:
    past, future = ended(features.METHODS, name, release), coming(features.METHODS, name, release)
    if past is not None:
        return past.reason + (f"; again from {future.since} on" if future else "")
    return f"from {future.since} on" if future else ""
