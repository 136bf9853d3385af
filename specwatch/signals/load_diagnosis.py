"""What load does to speculation, and what speculation is worth when nothing changed: schedule, break-even, K."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from specwatch.signals.course import Block
from specwatch.signals.evidence import Evidence, batch_size, coverage, step_latency
from specwatch.signals.findings import Figure, Finding, Level, figures
from specwatch.signals.speedup import SpeedupKind, last_position_worth
from specwatch.vllm.metrics import Counter

IDLE_COVERAGE = 0.01
"""Share of drafted steps below which a configured draft counts as idle, as in SpeculationNotDrafting."""

MIXED_COVERAGE = 0.90
"""Share of drafted steps below which the undrafted ones are worth a word: prompts admitted with one uncached token
and the ends of requests move it by a few per cent only."""

MOSTLY_DRAFTED = 0.5
"""Share of drafted steps below which a schedule that a batch is beyond is what rules: requests that end together, or
begin one after the other, leave steps with few of them."""

MORE_LOAD = 1.5
"""Times the quiet batch size from which a server counts as loaded: a closed loop wanders by less."""

SLOWER_STEPS = 1.2
"""Times the quiet step latency from which steps wait for arithmetic: on an idle machine they take as long at any
batch size, for reading the weights takes longest (the roofline)."""

WORTHWHILE = 1.05
"""Gain in speed from which another K is worth a deployment: less is lost in the noise of a load test."""

QUIET_SHARE = 0.25
"""Share of the blocks, those with the smallest batches, that show what a step takes without load."""

LEAST_BLOCKS = 4
"""Blocks below which there is no quiet time to compare with."""


@dataclass(frozen=True)
class Quiet:
    """A server at the smallest load it was seen at while it drafted."""

    batch: float
    """Requests."""
    step_seconds: float


def not_drafting(evidence: Evidence) -> Finding | None:
    """Configured, generating, and off: hardly a step is drafted, or fewer than half where a schedule says so."""
    share = evidence.number("draft_coverage")
    if share is None or share >= MOSTLY_DRAFTED:
        return None
    batch = evidence.number("running_requests")
    numbers = (
        *figures("ratio", draft_coverage=share),
        *figures("requests", running_requests=batch),
    )
    drafted = _drafts_up_to(evidence, batch)
    if drafted is not None:
        steps = "" if is_idle(evidence) else f" in {1 - share:.0%} of steps"
        return Finding(
            "off-by-schedule",
            Level.NOTICE,
            f"Speculation is off by its schedule{steps}: it drafts up to {drafted:.0f} requests at once, and "
            f"{batch:.1f} run now. That is as configured; it drafts again when load falls.",
            (*numbers, Figure("drafts_up_to", drafted, "requests")),
            "Nothing, where a calibration says that speculation loses beyond that batch size; raise "
            "--max-spec-concurrency or the schedule otherwise.",
            cause="off by schedule",
        )
    if not is_idle(evidence):
        return None
    return Finding(
        "not-drafting",
        Level.PROBLEM,
        "Speculation is off: it is configured and tokens flow, but hardly a step is drafted, and no schedule that is "
        "known here says so.",
        numbers,
        "Look for a schedule with K = 0 at this batch size, requests that cannot be speculated (some sampling "
        "parameters, structured output on older releases), contexts beyond the draft's own, and errors of the draft "
        "in vLLM's log.",
    )


def is_idle(evidence: Evidence) -> bool:
    """Whether tokens flow without drafts."""
    share = evidence.number("draft_coverage")
    return share is not None and share < IDLE_COVERAGE


def _drafts_up_to(evidence: Evidence, batch: float | None) -> float | None:
    """The batch size up to which a server drafts, where its schedule or its own past says so."""
    if batch is None:
        return None
    if evidence.schedule:
        drafting = [last for _, last, tokens in evidence.schedule if tokens > 0]
        ordered = sorted(evidence.schedule)
        stops = [first for first, _, tokens in ordered if tokens == 0]
        # A mean over the window and over engines: half a request below the limit is at it.
        beyond = bool(stops) and batch / max(evidence.engines, 1) >= min(stops) - 0.5
        return float(max(drafting, default=0)) if beyond else None
    return _seen_to_draft_up_to(evidence.course.blocks, batch) if is_idle(evidence) else None


def _seen_to_draft_up_to(blocks: Sequence[Block], batch: float) -> float | None:
    """The largest batch size at which steps were drafted, where every undrafted block had a larger one."""
    drafted = [size for block in blocks if (size := batch_size(block.work)) and (coverage(block.work) or 0) > 0.5]
    idle = [
        size
        for block in blocks
        if (size := batch_size(block.work)) and (share := coverage(block.work)) is not None and share < IDLE_COVERAGE
    ]
    if len(drafted) < LEAST_BLOCKS or max(drafted) >= min([*idle, batch]):
        return None
    return max(drafted)


def partly_drafted(evidence: Evidence) -> Finding | None:
    """Some steps are drafted and some are not."""
    share = evidence.number("draft_coverage")
    if share is None or not IDLE_COVERAGE <= share < MIXED_COVERAGE or not_drafting(evidence):
        return None
    return Finding(
        "partly-drafted",
        Level.NOTICE,
        f"Only {share:.0%} of decode steps are drafted: n-gram misses, a dynamic schedule or requests that cannot "
        "be speculated.",
        figures("ratio", draft_coverage=share),
    )


def past_break_even(evidence: Evidence) -> Finding | None:
    """Acceptance is as ever, more requests run, and speculation costs more than it brings."""
    batch, quiet = evidence.number("running_requests"), quiet_time(evidence.course.blocks)
    if batch is None or quiet is None or batch < quiet.batch * MORE_LOAD or evidence.fell:
        return None
    known = _known_speedup(evidence)
    if known is not None:
        low, high = known, known
        source = evidence.speedup.kind.value if evidence.speedup else ""
    else:
        band = speedup_under_load(evidence, quiet)
        if band is None:
            return None
        low, high = band
        source = "estimated from how steps slowed down with load"
    if math.sqrt(low * high) >= 1:
        return None
    worth = f"{high:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
    surely = "crossed" if high < 1 else "probably crossed"
    return Finding(
        "load-past-break-even",
        Level.PROBLEM,
        f"Load {surely} the break-even: {batch:.0f} requests run at once instead of {quiet.batch:.0f}, acceptance is "
        f"as before, and speculation is worth {worth} times the plain speed ({source}).",
        (
            *figures("requests", running_requests=batch, quiet_running_requests=quiet.batch),
            *figures("seconds", step_latency=evidence.number("step_latency"), quiet_step_latency=quiet.step_seconds),
            *figures("ratio", speedup_low=low, speedup_high=high, acceptance_rate=evidence.rate),
        ),
        "Stop drafting at this load: --max-spec-concurrency, or a schedule of K by batch size from a calibration; "
        "where the release has neither, cap --max-num-seqs or add replicas.",
        cause="load past break-even",
    )


def _known_speedup(evidence: Evidence) -> float | None:
    speedup = evidence.speedup
    if speedup is None or speedup.kind is SpeedupKind.ESTIMATED:
        return None
    return speedup.value


def quiet_time(blocks: Sequence[Block]) -> Quiet | None:
    """What a step took in the quarter of the blocks with the smallest batches."""
    seen = sorted(
        (size, seconds, block.work.counts[Counter.DECODE_STEPS])
        for block in blocks
        if (size := batch_size(block.work))
        and (seconds := step_latency(block.work))
        and (coverage(block.work) or 0) > 0.5
    )
    if len(seen) < LEAST_BLOCKS:
        return None
    quiet = seen[: max(1, round(len(seen) * QUIET_SHARE))]
    steps = sum(count for _, _, count in quiet)
    return Quiet(
        batch=sum(size for size, _, _ in quiet) / len(quiet),
        step_seconds=sum(seconds * count for _, seconds, count in quiet) / steps,
    )


def speedup_under_load(evidence: Evidence, quiet: Quiet) -> tuple[float, float] | None:
    """Smallest and largest speedup that the slowing of steps with load allows, with the draft's cost as assumed.

    A step of b requests with k draft tokens each reads the weights, w seconds, and computes b·(k + 1) tokens, τ
    seconds each; a plain step computes b. Between perfect overlap of both, max(w, τ·b), and none, w + τ·b, lies what a
    plain step would take. The quiet time gives w, the present latency τ.
    """
    batch, now = evidence.number("running_requests"), evidence.number("step_latency")
    k, length = evidence.number("draft_length"), evidence.number("acceptance_length")
    if batch is None or now is None or k is None or length is None or now < quiet.step_seconds * SLOWER_STEPS:
        return None
    draft, tokens = 1 + k * evidence.cost.c, k + 1 + k * evidence.cost.c
    overlapped = max(quiet.step_seconds / draft, now / tokens)
    slope = (now - quiet.step_seconds) / (batch - quiet.batch)
    weights = max(quiet.step_seconds - slope * quiet.batch, 0.0)
    added = weights / draft + slope * batch / tokens
    low, high = sorted((length * overlapped / now, length * added / now))
    return low, high


def slower_than_none(evidence: Evidence) -> Finding | None:
    """Speculation costs more than it brings, for another reason than load."""
    worth = evidence.worth
    if worth is None or worth >= 1 or past_break_even(evidence):
        return None
    known, most = (evidence.speedup, "") if _known_speedup(evidence) is not None else (None, "at most ")
    source = known.kind.value if known else evidence.cost.source
    break_even = evidence.speedup.break_even_acceptance if evidence.speedup else evidence.cost.break_even_acceptance
    needed = f" It needs an acceptance above {break_even:.1%}." if break_even is not None and break_even < 1 else ""
    return Finding(
        "slower-than-none",
        Level.PROBLEM,
        f"Speculation costs more than it gives: {most}{worth:.2f} times the plain speed ({source}).{needed}",
        figures("ratio", speedup=worth, acceptance_rate=evidence.rate, break_even_acceptance=break_even),
        "Lower K, change the draft, or turn speculation off.",
    )


def k_too_long(evidence: Evidence) -> Finding | None:
    """The last draft positions are hardly ever accepted, and fewer would be faster."""
    rates = evidence.positions
    worth = last_position_worth(rates, evidence.number("draft_length"), evidence.cost)
    if worth is None or worth >= 1:
        return None
    k, now = len(rates), evidence.worth
    best, would_be = _best_k(evidence)
    if now is None or best >= k or best < 1 or would_be < WORTHWHILE * now:
        return None
    return Finding(
        "k-too-long",
        Level.PROBLEM,
        f"K is too long: {rates[-1]:.1%} of drafts get their token {k} accepted. Use K = {best}: an estimated "
        f"{would_be:.2f} times the plain speed instead of {now:.2f}.",
        (
            *figures("ratio", last_position_acceptance=rates[-1], speedup=now, recommended_speedup=would_be),
            *figures("tokens", k=float(k), recommended_k=float(best)),
        ),
        f"Deploy with num_speculative_tokens {best}, and look at the last position again after a day.",
        cause="K too long",
    )


def _best_k(evidence: Evidence) -> tuple[int, float]:
    """The fastest K and its speedup: as the better known speedup has it, or by S = (1 + Σ rates) ÷ (v + K·c)."""
    known = evidence.speedup
    if known is not None and known.recommended_k is not None and known.recommended_speedup is not None:
        return known.recommended_k, known.recommended_speedup
    cost, rates = evidence.cost, evidence.positions
    speedups = [(1 + sum(rates[:k])) / (cost.v + k * cost.c) for k in range(1, len(rates) + 1)]
    best = max(range(len(speedups)), key=lambda index: speedups[index])
    return best + 1, speedups[best]
