"""Fewer draft tokens as the batch grows: vLLM's schedule of K by batch size, and the older limit of the V0 engine.

Every running request's draft tokens are verified in one pass. While the GPU waits for memory that is free; once the
batch fills it, every rejected token takes time from somebody else's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm import features
from specwatch.vllm.releases import Release, ended, holding
from specwatch.vllm.speculation import Note, Speculation

SCHEDULE = "num_speculative_tokens_per_batch_size"
"""Key of a list of (first batch size, last batch size, K): inclusive, on the requests of a step, from 0.24.0 on."""
BATCH_LIMIT = "disable_by_batch_size"
"""Key of the batch size from which the V0 engine stops drafting."""
LIMIT = "--max-spec-concurrency"
_EXAMPLE = f"{SCHEDULE}: a list of [first batch size, last batch size, K] is needed, such as [[1, 16, 5], [17, 64, 0]]"


def check(schedule: Any) -> None:
    """InputError for what vLLM finds wrong with a schedule only when its engine starts, minutes later."""
    if not isinstance(schedule, list) or not schedule:
        raise InputError(_EXAMPLE)
    for entry in schedule:
        if not _is_range(entry):
            raise InputError(f"{_EXAMPLE}, not {json.dumps(entry)}: sizes from 1 on, first <= last, K from 0 on")
    ordered = sorted(schedule)
    if ordered[0][0] != 1:
        raise InputError(f"{SCHEDULE}: it must start at batch size 1, not {ordered[0][0]}")
    for before, after in pairwise(ordered):
        if after[0] <= before[1]:
            raise InputError(f"{SCHEDULE}: {before} and {after} overlap")


def _is_range(entry: Any) -> bool:
    whole = isinstance(entry, list) and len(entry) == 3 and all(type(number) is int for number in entry)
    return whole and 1 <= entry[0] <= entry[1] and entry[2] >= 0


def remarks(schedule: Sequence[list[int]], tokens: int | None) -> list[Note]:
    """What vLLM makes of a good schedule without a word: sizes that nobody named, and more tokens than it drafts."""
    ordered = sorted(schedule)
    notes = [
        Note(SCHEDULE, f"the schedule says nothing of batch sizes {_between(before, after)}: K stays {before[2]} there")
        for before, after in pairwise(ordered)
        if after[0] > before[1] + 1
    ]
    last, most = ordered[-1], max(entry[2] for entry in ordered)
    if last[2] > 0:
        notes.append(Note(SCHEDULE, f"the schedule ends at batch size {last[1]}: K stays {last[2]} beyond"))
    if tokens is not None and most > tokens:
        notes.append(Note(SCHEDULE, f"K {most} in the schedule is cut to num_speculative_tokens {tokens}"))
    return notes


def _between(before: Sequence[int], after: Sequence[int]) -> str:
    first, last = before[1] + 1, after[0] - 1
    return str(first) if first == last else f"{first} to {last}"


def up_to(concurrency: int, tokens: int) -> list[list[int]]:
    """A schedule that drafts K tokens, half of K past half of that concurrency, and nothing beyond it.

    A step verifies batch size × (K + 1) tokens, so halving K as the batch doubles keeps the work of a step level.
    """
    half, fewer = concurrency // 2, -(-tokens // 2)
    stop = [concurrency + 1, concurrency + 1, 0]  # the last K holds for all larger batches
    if half == 0 or fewer == tokens:
        return [[1, concurrency, tokens], stop]
    return [[1, half, tokens], [half + 1, concurrency, fewer], stop]


def limited(speculation: Speculation, release: Release) -> tuple[Speculation, list[Note]]:
    """Write ``max_concurrency`` as the release's own keys; InputError, with what to do, where it has none."""
    limit, method = speculation.max_concurrency, speculation.method or ""
    if limit is None or not holding(features.METHODS, method, release):
        return speculation, []  # a method that the release lacks is refused for that
    for key in (SCHEDULE, BATCH_LIMIT):
        if key in speculation.options:
            raise InputError(f"{LIMIT} {limit} and {key}: both say when drafting ends; keep one of them")
    if holding(features.V0_METHODS, method, release) and holding(features.KEYS, BATCH_LIMIT, release):
        options = dict(speculation.options) | {BATCH_LIMIT: limit + 1}
        text = f"{LIMIT} {limit} is written as {BATCH_LIMIT} {limit + 1}: the V0 engine drafts below that batch size"
    elif holding(features.KEYS, SCHEDULE, release):
        schedule = up_to(limit, _needed_tokens(speculation, limit))
        options = dict(speculation.options) | {SCHEDULE: schedule}
        text = f"{LIMIT} {limit} is written as {SCHEDULE} {json.dumps(schedule)}: batch sizes from, to, and their K"
    else:
        raise InputError(f"{LIMIT} {limit}: vLLM {release} cannot stop drafting by batch size. {_remedy(limit)}")
    return replace(speculation, options=options, max_concurrency=None), [Note(LIMIT, text)]


def _needed_tokens(speculation: Speculation, limit: int) -> int:
    if speculation.num_speculative_tokens is None:
        raise InputError(f"{LIMIT} {limit} needs num_speculative_tokens: the K from which to step down")
    return speculation.num_speculative_tokens


def refuse_batch_limit(speculation: Speculation, value: Any, release: Release) -> None:
    """InputError where ``disable_by_batch_size`` has no effect: V1 accepts it up to 0.16 and never reads it."""
    method, tokens = speculation.method or "", speculation.num_speculative_tokens
    if holding(features.V0_METHODS, method, release):
        return
    gone = ended(features.KEYS, BATCH_LIMIT, release)
    reason = gone.reason if gone else "the V1 engine accepts it and never reads it"
    if not isinstance(value, int) or value < 2:
        remedy = f"Use {SCHEDULE}, K by batch size."
    elif holding(features.KEYS, SCHEDULE, release):
        same = json.dumps([[1, value - 1, tokens or features.USUAL_TOKENS], [value, value, 0]])
        remedy = (
            f'Write "{SCHEDULE}": {same} in its place: K by batch size, the last one for all above; or '
            f"{LIMIT} {value - 1}, which steps down to it."
        )
    else:
        remedy = f"Leave it out. {_remedy(value - 1)}"
    raise InputError(f"{BATCH_LIMIT} {value}: no effect on vLLM {release} with {method}: {reason}. {remedy}")


def _remedy(limit: int) -> str:
    since = next(fact.since for fact in features.KEYS if fact.name == SCHEDULE)
    return (
        f"vLLM {since} has {SCHEDULE} for it. Until then cap the batch, --max-num-seqs {limit}: more requests wait for "
        "their turn; or serve the busy hours without speculation."
    )


def refuse_unheeded(speculation: Speculation, replicas: int, release: Release) -> None:
    """InputError where vLLM would drop a schedule with a warning at best, and go on drafting K tokens."""
    since = features.SCHEDULE_UNHEEDED.get(speculation.method or "")
    if since is not None and since.holds(release):
        raise InputError(f"{SCHEDULE} with method {speculation.method} on vLLM {release}: {since.reason}")
    if replicas > 1:
        raise InputError(
            f"{SCHEDULE} with --data-parallel-size {replicas}: replicas that draft different numbers of tokens wait "
            "for each other forever, so newer releases drop the schedule with a warning. Start one server per replica "
            "behind a load balancer."
        )
