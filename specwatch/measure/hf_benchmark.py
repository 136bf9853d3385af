"""Hugging Face's generate, plain and speculating, measured so that the figures can be held against each other.

The arms take turns on every prompt, in an order that rotates, so that a machine that warms up or is busy for a while
slows all of them alike. Tokens are those that came out, up to the end of the sequence, not those that were asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specwatch.errors import InputError
from specwatch.measure.draft_evaluation import Encoded
from specwatch.measure.hf_acceptance import AssistedCounts, counted_drafting
from specwatch.measure.local_models import end_tokens, remedied

PLAIN, ASSISTED, NGRAM = "plain", "assisted", "n-gram"


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    k: int = 5
    """Draft tokens a step, the same in every step: transformers' own schedules would change it on the way."""
    max_tokens: int = 128
    temperature: float = 0.0
    repetitions: int = 3
    warm_up: int = 2
    """Generations of each arm that are not counted: kernels are chosen and memory is taken in the first ones."""
    ngram: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Generation:
    """One call of generate."""

    arm: str
    domain: str
    digest: str
    """Of the document."""
    repetition: int
    tokens: tuple[int, ...]
    """What came out, the token that ended it included."""
    seconds: float
    drafted: int
    accepted: int
    equal: bool | None
    """Whether it is what the plain arm gave in this repetition; None where that is not to be expected."""


def measure(target: Any, draft: Any | None, encoded: Sequence[Encoded], plan: Plan) -> Iterator[Generation]:
    """Every generation, as it is done. InputError where a model cannot be assisted."""
    arms = _arms(draft, plan)
    with remedied("warming up"):
        for name in list(arms) * plan.warm_up:
            _generate(target, encoded[0], arms[name], plan, seed=plan.seed)
    names = list(arms)
    turn = 0
    for repetition in range(plan.repetitions):
        for one in encoded:
            first = turn % len(names)
            turn += 1
            done: dict[str, tuple[tuple[int, ...], float, AssistedCounts]] = {}
            with remedied(f"generating for {one.document.place}", "; what was measured before is kept"):
                for name in (*names[first:], *names[:first]):
                    done[name] = _generate(target, one, arms[name], plan, plan.seed + repetition)
            plain = done[PLAIN][0]
            for name in names:
                tokens, seconds, counts = done[name]
                equal = None if plan.temperature or name == PLAIN else tokens == plain
                yield Generation(
                    arm=name,
                    domain=one.document.domain,
                    digest=one.document.digest,
                    repetition=repetition,
                    tokens=tokens,
                    seconds=seconds,
                    drafted=counts.drafted,
                    accepted=counts.accepted,
                    equal=equal,
                )


def _arms(draft: Any | None, plan: Plan) -> dict[str, dict[str, Any]]:
    """What generate is told beside the rest, by arm."""
    arms: dict[str, dict[str, Any]] = {PLAIN: {}}
    if draft is not None:
        draft.generation_config.num_assistant_tokens = plan.k
        draft.generation_config.num_assistant_tokens_schedule = "constant"
        draft.generation_config.assistant_confidence_threshold = 0.0
        arms[ASSISTED] = {"assistant_model": draft}
    if plan.ngram:
        arms[NGRAM] = {"prompt_lookup_num_tokens": plan.k}
    if len(arms) == 1:
        raise InputError("nothing to compare with: give --draft, or leave --ngram on")
    return arms


def _generate(
    model: Any, one: Encoded, arm: dict[str, Any], plan: Plan, seed: int
) -> tuple[tuple[int, ...], float, AssistedCounts]:
    """Tokens, seconds, and what was drafted."""
    prompt = torch.tensor([one.prompt], device=model.device)
    ends = end_tokens(model)
    padding = model.generation_config.pad_token_id
    if plan.temperature:
        torch.manual_seed(seed)
        sampling: dict[str, Any] = {"do_sample": True, "temperature": plan.temperature, "top_k": 0, "top_p": 1.0}
    else:
        sampling = {"do_sample": False}
    with counted_drafting(model) as counts:
        _synchronise(model.device)
        begun = time.perf_counter()
        try:
            output = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=plan.max_tokens,
                pad_token_id=min(ends, default=0) if padding is None else padding,
                **sampling,
                **arm,
            )
        except (ValueError, TypeError, NotImplementedError) as problem:
            raise InputError(f"transformers cannot generate so with {type(model).__name__}: {problem}") from None
        _synchronise(model.device)
        seconds = time.perf_counter() - begun
    return _until_end(output[0, prompt.shape[1] :].tolist(), ends), seconds, counts


def _until_end(tokens: Sequence[int], ends: frozenset[int]) -> tuple[int, ...]:
    """Tokens up to the one that ends the sequence: what some releases put behind it nobody reads."""
    end = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tuple(tokens[: end + 1])


def _synchronise(device: Any) -> None:
    """Wait until the device has done what it was given: generate returns before."""
    kind = str(getattr(device, "type", device)).split(":")[0]
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind == "mps":
        torch.mps.synchronize()
