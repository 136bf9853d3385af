"""Writes out what vLLM would fill in by itself, where releases fill in different things.

The same words then mean the same on every release, and the record of a start says what was really asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specwatch.vllm import features
from specwatch.vllm.features import SPECULATIVE_CONFIG, Style
from specwatch.vllm.releases import Release, holding
from specwatch.vllm.speculation import CommandLine, Note, Speculation

_NGRAM_METHODS = ("ngram", "ngram_gpu")
_WINDOW = 5
"""Both ends of n-gram's window where --speculative-config says nothing of it."""
_FLAGS_SHORTEST = 1
"""The shortest match where the older flags say nothing of it."""
_SAMPLE = "draft_sample_method"
_SAMPLING_METHODS = ("draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark")
"""Methods whose draft gives probabilities, so that its tokens can be sampled or taken greedily."""


def written_out(plan: Speculation, line: CommandLine, release: Release) -> tuple[Speculation, list[Note]]:
    """The plan with those defaults in it; as it is where vLLM reads it from a file of its own.

    ``plan`` has its method resolved.
    """
    notes: list[Note] = []
    for rule in _RULES if line.file is None else ():
        added, said = rule(plan, line, release)
        if added:
            plan = replace(plan, options=dict(plan.options) | added)
            notes += said
    return plan, notes


Additions = tuple[dict[str, Any], list[Note]]


def _window(plan: Speculation, line: CommandLine, release: Release) -> Additions:
    """N-gram's window: by silence, the older flags start at 1; the JSON makes both ends 5, or both the one given."""
    least, most = plan.options.get("prompt_lookup_min"), plan.options.get("prompt_lookup_max")
    as_flags = Style.LEGACY in line.styles and Style.PLAN not in line.styles
    on_flags = not SPECULATIVE_CONFIG.exists.holds(release)
    complete = least is not None and most is not None
    if plan.method not in _NGRAM_METHODS or complete or (as_flags and on_flags):
        return {}, []
    shortest = _FLAGS_SHORTEST if as_flags and most is not None else most or _WINDOW
    window = {"prompt_lookup_max": most or least or _WINDOW, "prompt_lookup_min": least or shortest}
    added = {key: value for key, value in window.items() if key not in plan.options}
    words = " and ".join(f"{key} {value}" for key, value in added.items())
    text = f"{words}: written out, for the older flags and --speculative-config mean different things by silence"
    return added, [Note("prompt_lookup_min", text)]


def _sampling(plan: Speculation, _line: CommandLine, release: Release) -> Additions:
    """Greedy, as every release so far has it that leaves a choice; the V0 engine always sampled."""
    if plan.method not in _SAMPLING_METHODS or _SAMPLE in plan.options:
        return {}, []
    if not holding(features.VALUES[_SAMPLE], "greedy", release):
        return {}, []
    text = (
        f"{_SAMPLE} greedy: written out, for the V0 engine sampled its drafts and a later release may; probabilistic "
        "takes some memory and is accepted more often above temperature 0"
    )
    return {_SAMPLE: "greedy"}, [Note(_SAMPLE, text)]


_RULES: tuple[Callable[[Speculation, CommandLine, Release], Additions], ...] = (_window, _sampling)
