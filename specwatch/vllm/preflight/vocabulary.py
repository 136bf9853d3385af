"""Whether target and draft speak the same language: a draft proposes numbers of tokens, not text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from specwatch.vllm import features
from specwatch.vllm.preflight.comparison import Comparison, Difference, compare, shown
from specwatch.vllm.preflight.findings import Finding, note, refusal, warning
from specwatch.vllm.preflight.models import Model, UnreadableModel
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.shape import shape_of
from specwatch.vllm.preflight.tokenizers import Vocabulary, vocabulary

HETEROGENEOUS = "use_heterogeneous_vocab"
FEW_IN_COMMON = 100
"""Tokens; with fewer, vLLM warns of a very small intersection itself."""
SHOWN_DIFFERENCES = 3


def check(plan: PlannedStart, target: Model, tokenizer: Model, draft: Model) -> Iterator[Finding]:
    """Compare the sizes that vLLM compares, then the vocabularies, which it does not.

    ``tokenizer`` is where the target's tokenizer is read from: the target, unless ``--tokenizer`` says otherwise.
    """
    if plan.method != "draft_model":
        yield from _head(target, draft)
        return
    try:
        compared = _compare(tokenizer, draft)
    except UnreadableModel as problem:
        yield note("vocabulary-unread", f"{problem}.", "Make sure yourself that both have the same tokenizer.")
        compared = None
    if plan.asks_for(HETEROGENEOUS):
        yield from _translated(plan, compared)
        return
    sizes = _sizes(target, draft)
    if sizes:
        yield _other_sizes(plan, target, draft, sizes, compared)
    elif compared:
        yield from _other_tokens(plan, target, draft, compared)
    if compared:
        yield from _roles(compared)


def _compare(target: Model, draft: Model) -> Comparison:
    ours = vocabulary(target)
    if _same_file(ours, draft):
        return compare(ours, ours)
    return compare(ours, vocabulary(draft))


def _same_file(ours: Vocabulary, draft: Model) -> bool:
    """Whether both models bring the same tokenizer, byte for byte: reading one of 17 MB takes half a second."""
    names = (ours.source.name, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
    pairs = [(ours.source.parent / name, draft.folder / name) for name in names]
    if not all(file.exists() for file, _ in pairs[:2]):
        return False
    return all(_bytes(file) == _bytes(other) for file, other in pairs)


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _sizes(target: Model, draft: Model) -> tuple[int, int] | None:
    ours, theirs = shape_of(target).vocabulary_size, shape_of(draft).vocabulary_size
    return (ours, theirs) if ours and theirs and ours != theirs else None


def _other_sizes(
    plan: PlannedStart, target: Model, draft: Model, sizes: tuple[int, int], compared: Comparison | None
) -> Finding:
    """Sizes that differ: vLLM refuses these itself, later, and names the two sizes only."""
    if compared and not (compared.ordinary or compared.markers):
        text = (
            f"{target.name} and {draft.name} have the same tokenizer, but room for {sizes[0]} and {sizes[1]} tokens: "
            f"vLLM {plan.release} refuses a draft of another size."
        )
        return refusal("vocabulary-size", text, _translation(plan) or _other_draft(target))
    text = (
        f"{draft.name} cannot draft for {target.name}: they split text into different tokens, {sizes[1]} of them "
        f"against {sizes[0]}. A draft proposes tokens by number, and its numbers mean other words to the target"
    )
    example = _example(compared.ordinary if compared else ())
    return refusal("vocabulary-differs", f"{text}{example}.", f"{_other_draft(target)} {_translation(plan)}".strip())


def _other_tokens(plan: PlannedStart, target: Model, draft: Model, compared: Comparison) -> Iterator[Finding]:
    """Vocabularies of one size: vLLM starts whatever they hold."""
    if compared.ordinary or compared.markers:
        differing = len(compared.ordinary) + len(compared.markers)
        text = (
            f"{draft.name} cannot draft for {target.name}: their vocabularies are equally large, so vLLM would start, "
            f"but {differing} of {compared.target_size} numbers mean different tokens to them, and what the draft "
            f"proposes would hardly ever be accepted{_example((*compared.markers, *compared.ordinary))}."
        )
        remedy = f"{_other_draft(target)} {_translation(plan)}".strip()
        yield refusal("vocabulary-differs", text, remedy, forcible=True)
    elif compared.added or compared.unshared:
        differing = len(compared.added) + len(compared.unshared)
        text = (
            f"{differing} tokens, special ones and the like, are not the same for {target.name} and {draft.name}"
            f"{_example((*compared.added, *compared.unshared))}."
        )
        remedy = (
            "Text without them is drafted as usual; if every answer holds one, as chats do, look for another draft."
        )
        yield warning("added-tokens-differ", text, remedy)


def _roles(compared: Comparison) -> Iterator[Finding]:
    """A base model and its chat form share numbers, and end their texts with different ones of them."""
    told = [
        f"{role} is {shown(ours)} for the target, {shown(theirs)} for the draft"
        for role, ours, theirs in compared.roles
    ]
    weighty = any(role != "PAD" and ours and theirs for role, ours, theirs in compared.roles)
    if not told or compared.ordinary:
        return
    if weighty:
        text = f"Target and draft begin or end their texts with different tokens: {'; '.join(told)}."
        remedy = "One of them may be a base model and the other its chat form: take two of a kind."
        yield warning("special-tokens-differ", text, remedy)
    else:
        yield note("special-tokens-differ", f"{'; '.join(told)}: this changes nothing for drafting.")


def _translated(plan: PlannedStart, compared: Comparison | None) -> Iterator[Finding]:
    """With a translation of numbers only the tokens in common can be drafted."""
    sampling = plan.asks_for("draft_sample_method")
    if sampling not in (None, "greedy"):
        text = (
            f"{HETEROGENEOUS} and draft_sample_method {sampling}: vLLM translates only what a draft proposes greedily."
        )
        yield refusal("heterogeneous-sampling", text, "Leave draft_sample_method out.")
    if compared is None:
        return
    share = compared.common / max(compared.draft_size, 1)
    text = f"{HETEROGENEOUS}: the draft can use {compared.common} of its {compared.draft_size} tokens ({share:.0%})."
    if compared.common < FEW_IN_COMMON:
        yield warning("heterogeneous-vocabulary", text, "Too few to draft sentences: take another draft.")
    else:
        yield note("heterogeneous-vocabulary", text)


def _head(target: Model, draft: Model) -> Iterator[Finding]:
    """A head has no tokenizer of its own, but was trained for one vocabulary."""
    sizes = _sizes(target, draft)
    if sizes and draft.config.get("model_type") != "medusa":
        text = (
            f"{draft.name} was made for a vocabulary of {sizes[1]} tokens, {target.name} has {sizes[0]}: it was "
            "trained for another model."
        )
        yield warning("head-vocabulary", text, f"Take a head that was trained for {target.name}.")


def _example(differences: Sequence[Difference]) -> str:
    """The first few differences, in words: those between words that people read, where there are such."""
    chosen = [difference for difference in differences if difference.readable] or list(differences)
    return f": {'; '.join(map(str, chosen[:SHOWN_DIFFERENCES]))}" if chosen else ""


def _other_draft(target: Model) -> str:
    return (
        f"Take a small model of the same family as {target.name}, made with the same tokenizer, or --spec-method ngram."
    )


def _translation(plan: PlannedStart) -> str:
    """When vLLM can translate numbers between two vocabularies."""
    exists = next(fact for fact in features.KEYS if fact.name == HETEROGENEOUS)
    if exists.holds(plan.release):
        return (
            f'Or let vLLM translate: "{HETEROGENEOUS}": true in --speculative-config drafts with the tokens that both '
            "have."
        )
    return f"From {exists.since} on vLLM can translate ({HETEROGENEOUS}); {plan.release} cannot."
