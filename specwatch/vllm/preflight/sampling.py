"""Sampling parameters that a release refuses, or quietly does not speculate with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from specwatch.vllm.preflight.findings import Finding, note, warning
from specwatch.vllm.preflight.models import Model, UnreadableModel, read_json
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.releases import Fact, fact

_DEFAULTS = "generation_config.json"
"""The model's own defaults, which vLLM gives to every request unless --generation-config says otherwise."""
_NEUTRAL: Mapping[str, float] = {
    "min_p": 0,
    "min_tokens": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
}
"""Values that mean "off"."""


@dataclass(frozen=True)
class _Effect:
    """What becomes of a request with one of these parameters, on the releases for which it holds."""

    holds: Fact
    parameters: tuple[str, ...]
    what: str


_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
_REFUSED = "is refused with status 400"
_EFFECTS = (
    _Effect(
        fact("unspeculated", "0.8.0", "0.14.0"), (*_PENALTIES, "min_p", "logprobs"), "is served without speculation"
    ),
    _Effect(fact("refused", "0.14.0", "0.17.0"), ("min_tokens", "min_p", "logit_bias"), _REFUSED),
    _Effect(fact("refused", "0.17.0"), ("min_p", "logit_bias"), _REFUSED),
)


def check(plan: PlannedStart, target: Model | None) -> Iterator[Finding]:
    """Which parameters clients cannot use, and whether the server's own defaults are among them."""
    effect = next((effect for effect in _EFFECTS if effect.holds.holds(plan.release)), None)
    if effect is None or plan.speculation is None:
        return
    defaults = _defaults(plan, target)
    among = [name for name in effect.parameters if _set(defaults, name)]
    if among:
        text = (
            f"The server's default {among[0]} {defaults[among[0]]} goes with every request, and with speculation vLLM "
            f"{plan.release} has it that such a request {effect.what}."
        )
        remedy = f"""Start with --override-generation-config '{{"{among[0]}": {_NEUTRAL[among[0]]}}}'."""
        yield warning("default-sampling", text, remedy)
    else:
        listed = f"{', '.join(effect.parameters[:-1])} or {effect.parameters[-1]}"
        yield note("sampling", f"With speculation, vLLM {plan.release}: a request with {listed} {effect.what}.")


def _set(defaults: Mapping[str, Any], name: str) -> bool:
    return name in _NEUTRAL and defaults.get(name) not in (None, _NEUTRAL[name])


def _defaults(plan: PlannedStart, target: Model | None) -> Mapping[str, Any]:
    """Defaults of the model, unless vLLM is told not to use them, and what the command line puts over them."""
    found: dict[str, Any] = {}
    if target is not None and (plan.text("--generation-config") or "auto") == "auto":
        found |= _object(target)
    try:
        override = json.loads(plan.text("--override-generation-config") or "{}")
    except ValueError:  # vLLM's parser says so better
        return found
    return found | override if isinstance(override, dict) else found


def _object(target: Model) -> dict[str, Any]:
    try:
        content = read_json(target.folder / _DEFAULTS)
    except UnreadableModel:
        return {}
    return content if isinstance(content, dict) else {}
