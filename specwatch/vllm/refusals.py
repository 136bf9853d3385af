"""Reasons not to start: what a release of vLLM would refuse late, in other words, or silently ignore."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches

from specwatch.errors import InputError
from specwatch.vllm import features, schedule
from specwatch.vllm.arguments import option, present
from specwatch.vllm.methods import GUIDES
from specwatch.vllm.releases import Fact, Release, coming, ended, holding, names
from specwatch.vllm.schedule import BATCH_LIMIT, SCHEDULE
from specwatch.vllm.speculation import Speculation


def check(speculation: Speculation, rest: Sequence[str], release: Release) -> None:
    """Raise InputError for the first thing in the way; ``rest`` are the words not about speculation.

    ``speculation`` has its method resolved and every value that a release merely renamed in the release's terms.
    """
    if release < features.OLDEST:
        raise InputError(f"vLLM {release} cannot speculate: that began with {features.OLDEST}")
    for rule in _RULES:
        rule(speculation, rest, release)


def unknown_to_us(release: Release) -> bool:
    """Whether the release is newer than the tables: what they don't hold may exist there."""
    return release.numbers > features.NEWEST.numbers


def _method(speculation: Speculation, _rest: Sequence[str], release: Release) -> None:
    method = speculation.method or ""
    if holding(features.METHODS, method, release):
        return
    known = names(features.METHODS, release)
    if all(fact.name != method for fact in features.METHODS):
        if unknown_to_us(release):
            return
        raise InputError(f"method {method}: vLLM {release} has {', '.join(known)}{_hint(method, known)}")
    raise InputError(
        f"vLLM {release} cannot speculate with {_describe(method, speculation.model)}: "
        f"{_why(features.METHODS, method, release)}. {_nearest(method, release)}"
    )


def _describe(method: str, model: str | None) -> str:
    return f"method {method}" + (f" (draft {model})" if model else "")


def _why(facts: Sequence[Fact], name: str, release: Release) -> str:
    """Reason and remedy release for something that the release lacks."""
    past, future = ended(facts, name, release), coming(facts, name, release)
    if past is None and future is not None:
        return f"it came with {future.since}"
    reason = past.reason if past else ""
    return f"{reason}; it works again from {future.since} on" if future else reason


def _nearest(method: str, release: Release) -> str:
    known = names(features.METHODS, release)
    usable = [name for name in features.ALTERNATIVES.get(method, ("ngram",)) if name in known]
    described = [f"{name} ({GUIDES[name].needs})" for name in usable]
    if method.endswith("mtp"):  # the same by other names
        described = [name for name in known if name.endswith("mtp")] or described
    return f"On {release} the nearest that works: {', or '.join(described) or 'no speculation'}."


def _hint(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _model(speculation: Speculation, _rest: Sequence[str], _release: Release) -> None:
    if speculation.model is None and speculation.method in features.MODEL_NEEDED:
        raise InputError(
            f"method {speculation.method} needs its draft: --speculative-model NAME, or the key model in "
            "--speculative-config"
        )


def _tokens(speculation: Speculation, _rest: Sequence[str], _release: Release) -> None:
    tokens, method = speculation.num_speculative_tokens, speculation.method
    # vLLM looks for K in the target's own head only once it knows K.
    from_model = method in features.TOKENS_FROM_MODEL and (method == "suffix" or speculation.model is not None)
    if tokens is None and not from_model:
        raise InputError(
            "num_speculative_tokens is missing: how many tokens the draft proposes in one step. Add "
            f"--num-speculative-tokens {_usual_tokens(method)}, the usual start."
        )
    if tokens is not None and tokens < 1:
        raise InputError(
            f"num_speculative_tokens {tokens}: at least 1 is needed; leave every speculation flag out to serve "
            "without speculation"
        )


def _usual_tokens(method: str | None) -> int:
    """A head inside the target mostly has the depth of one token."""
    return 1 if method is not None and method.endswith("mtp") else features.USUAL_TOKENS


def _keys(speculation: Speculation, _rest: Sequence[str], release: Release) -> None:
    for key, value in speculation.options.items():
        if key == BATCH_LIMIT:
            schedule.refuse_batch_limit(speculation, value, release)
        elif key == "tensor_parallel_size":
            raise InputError(f"{key}: vLLM refuses this key for a draft; it is called draft_tensor_parallel_size")
        elif not holding(features.KEYS, key, release):
            _missing_key(key, release)


def _missing_key(key: str, release: Release) -> None:
    if any(fact.name == key for fact in features.KEYS):
        raise InputError(f"{key}: not in vLLM {release}: {_why(features.KEYS, key, release)}. Leave it out.")
    if unknown_to_us(release):
        return
    known = names(features.KEYS, release)
    near = _hint(key, known) or f": it has {', '.join(known)}"
    raise InputError(f"{key}: no key of vLLM {release} (0.9.1 to 0.15 would ignore it in silence){near}")


def _values(speculation: Speculation, _rest: Sequence[str], release: Release) -> None:
    for key, facts in features.VALUES.items():
        value = speculation.options.get(key)
        if value is None or holding(facts, str(value), release) or unknown_to_us(release):
            continue
        known = names(facts, release)
        reason = (
            _why(facts, value, release)
            if any(fact.name == value for fact in facts)
            else f"no such value{_hint(str(value), known)}"
        )
        raise InputError(f"{key} {value}: not in vLLM {release}: {reason}. It has {', '.join(known)}.")


def _sampling(speculation: Speculation, _rest: Sequence[str], _release: Release) -> None:
    """What vLLM finds out only as it loads the draft."""
    method = speculation.options.get("draft_sample_method")
    if method in ("gumbel", "probabilistic") and speculation.options.get("use_local_argmax_reduction"):
        raise InputError(f"use_local_argmax_reduction with draft_sample_method {method}: it takes greedy only")


def _numbers(speculation: Speculation, rest: Sequence[str], _release: Release) -> None:
    for key in ("max_model_len", "draft_tensor_parallel_size", "prompt_lookup_max", "prompt_lookup_min"):
        value = speculation.options.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"{key}: a whole number from 1 on is needed, not {json.dumps(value)}")
    least, most = (speculation.options.get(f"prompt_lookup_{end}") for end in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise InputError(f"prompt_lookup_min {least} is larger than prompt_lookup_max {most}")
    _draft_parallel(speculation.options.get("draft_tensor_parallel_size"), rest)
    _draft_length(speculation.options.get("max_model_len"), rest)


def _draft_parallel(size: int | None, rest: Sequence[str]) -> None:
    target = option(rest, "--tensor-parallel-size", "-tp") or "1"
    if size not in (None, 1) and target.isdigit() and size != int(target):
        raise InputError(
            f"draft_tensor_parallel_size {size}: a draft runs on 1 device or on as many as the target "
            f"(--tensor-parallel-size {target})"
        )


def _draft_length(length: int | None, rest: Sequence[str]) -> None:
    target = option(rest, "--max-model-len") or ""
    if length is not None and target.isdigit() and length > int(target):
        raise InputError(
            f"max_model_len {length} of the draft is larger than the target's --max-model-len {target}: vLLM "
            "refuses that after loading; lower it or leave it out"
        )


def _schedule(speculation: Speculation, rest: Sequence[str], release: Release) -> None:
    if SCHEDULE in speculation.options:
        schedule.check(speculation.options[SCHEDULE])
        replicas = option(rest, "--data-parallel-size", "-dp") or "1"
        schedule.refuse_unheeded(speculation, int(replicas) if replicas.isdigit() else 1, release)


def _neighbours(speculation: Speculation, rest: Sequence[str], release: Release) -> None:
    """Flags of the server that a release cannot have beside speculation."""
    per_request = features.PER_REQUEST_METRICS
    if present(rest, per_request.name) and not per_request.holds(release):
        raise InputError(f"{per_request.name}: not in vLLM {release}; it came with {per_request.since}")
    on_v0 = holding(features.V0_METHODS, speculation.method or "", release) is not None
    for conflict in features.CONFLICTS:
        size = option(rest, conflict.exists.name, *conflict.aliases) or "1"
        applies = conflict.exists.holds(release) and (on_v0 or not conflict.v0_only)
        if applies and size.isdigit() and int(size) > 1:
            raise InputError(
                f"{conflict.exists.name} {size} with speculation on vLLM {release}: {conflict.exists.reason}; "
                f"{conflict.remedy}"
            )


_RULES: tuple[Callable[[Speculation, Sequence[str], Release], None], ...] = (
    _method,
    _model,
    _tokens,
    _keys,
    _values,
    _sampling,
    _numbers,
    _schedule,
    _neighbours,
)
