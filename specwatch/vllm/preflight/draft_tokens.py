"""Judges K: from eight draft tokens on, the last ones are rarely worth their cost."""

from __future__ import annotations

from collections.abc import Iterator

from specwatch.vllm import features
from specwatch.vllm.preflight.findings import Finding, note, warning
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.profile import Profile

_CODE = "draft-tokens"


def check(plan: PlannedStart) -> Iterator[Finding]:
    """With a profile, what each further token gains; without one, the rule of thumb."""
    tokens = plan.speculation.num_speculative_tokens if plan.speculation else None
    if tokens is None or plan.method not in features.SEQUENTIAL:
        return
    if plan.profile is not None:
        yield _measured(tokens, plan.profile)
    elif tokens >= features.MANY_TOKENS:
        text = (
            f"num_speculative_tokens {tokens}: from {features.MANY_TOKENS} on, the last tokens are rarely accepted and "
            "always paid for."
        )
        yield warning(_CODE, text, f"{features.USUAL_TOKENS} is the usual start; --profile-from a sidecar tells more.")


def _measured(tokens: int, profile: Profile) -> Finding:
    best, measured = profile.best, len(profile.positions)
    gains = ", ".join(
        f"token {place} {profile.speedup(place) - profile.speedup(place - 1):+.2f}" for place in range(1, measured + 1)
    )
    text = (
        f"num_speculative_tokens {tokens}: by the acceptance of {profile.source}, with a draft token at "
        f"{profile.cost:.0%} of a target step, the expected speedup changes so: {gains}."
    )
    if best == 0:
        return warning(_CODE, text, "Drafting does not pay on that traffic: look for another draft or method.")
    if tokens > best:
        expected = f"{best} draft tokens give {profile.speedup(best):.2f} times"
        if tokens <= measured:
            expected += f", {tokens} give {profile.speedup(tokens):.2f}"
        return warning(_CODE, text, f"{expected}: take {best}.")
    return note(_CODE, text, f"{best} is the best of those measured." if tokens < best else "That is the best K of it.")
