"""What speculation is worth on one server now, from its counters: measured, calibrated and estimated.

All three compare the time per token with the time that plain decoding would take at the same batch size b.

* Measured: plain seconds per token at b ÷ today's. The plain ones are a twin's without speculation, or a calibration's.
* Calibrated: tokens per step ÷ cost of a step. Steps that were drafted cost w(b, K), the others 1, each by its share.
* Estimated: the same with v + k·c for w, where nobody measured.

Tokens per step are counted as delivered, (generated - first) ÷ decode steps, so undrafted steps and tokens behind a
request's end are in them. Latency is judged by time per token: time per step improves when speculation collapses.
b is Δ ITL sum ÷ seconds: by Little's law exactly the mean number of requests that decode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from specwatch.signals.cost import CostCurve
from specwatch.signals.dispersion import Quantity
from specwatch.signals.formula import PerPosition
from specwatch.signals.interval import of_quantity
from specwatch.signals.plain_speed import PlainSpeed
from specwatch.signals.recommended_k import recommend
from specwatch.signals.speedup import ASSUMED, UNDRAFTED, DraftCost, Speedup, SpeedupKind, band
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

HOUR = 3600.0

LEAST, MOST = 1e-6, 1e18
"""Increments of a window lie between these, or the page is broken; between them no quotient here leaves the floats."""


@dataclass(frozen=True)
class Basis:
    """What is known of a server besides its counters."""

    cost: DraftCost = ASSUMED
    """For estimates, where nothing was measured."""
    curve: CostCurve | None = None
    """From a calibration of this very deployment."""
    twins: PlainSpeed | None = None
    """Of the same model without speculation, on the same hardware."""
    drafts_vary: bool = False
    """The method drafts fewer than K tokens where it finds fewer (n-gram, suffix). Its steps were then calibrated as
    they are, under the configured K; otherwise a mean below K is a schedule's doing, and costs lie between those of
    the K that were measured."""
    accelerators: int = 1
    """GPUs of the server: tensor times pipeline times data parallel."""


@dataclass(frozen=True)
class _Seen:
    """One server's window, in the quantities that a speedup takes."""

    batch_size: float
    engine_batch_size: float
    """Mean over its engines, each as often as it decodes: what a token sees."""
    busy: float
    """Share of the time that its engines work, at most."""
    tokens_per_step: float
    coverage: float
    """Share of steps that were drafted."""
    accepted_per_draft: float
    mean_k: float
    k: int
    """As configured: the number of positions."""
    rates: tuple[float | None, ...]
    seconds_per_token: float
    tokens_per_second: float
    """Decoded, first tokens left out."""

    @property
    def delivered(self) -> float:
        """Tokens that a step gains for each accepted one of a draft: less than 1 by undrafted steps and truncation."""
        if self.accepted_per_draft <= 0:
            return self.coverage
        return max(0.0, self.tokens_per_step - 1) / self.accepted_per_draft

    def mean_step(self, drafted_step: float) -> float:
        """Cost of a step, drafted or not, in plain steps."""
        return self.coverage * drafted_step + 1 - self.coverage


StepCost = Callable[[int], float | None]
"""Cost of a drafted step by K, in plain steps; None where it is not known."""


def assess(engines: Sequence[Increments], basis: Basis, min_drafts: float) -> tuple[Speedup, ...]:
    """Every way in which the worth of speculation is known here, the best known first; none without enough drafts.

    ``engines`` are the window's increments of one server; of several servers, see ``pooled``.
    """
    seen = _seen(engines, min_drafts)
    if seen is None:
        return ()
    found = (_measured(engines, seen, basis), _calibrated(engines, seen, basis), _estimated(seen, basis))
    return tuple(_with_savings(speedup, seen, basis) for speedup in found if speedup is not None)


def _seen(engines: Sequence[Increments], min_drafts: float) -> _Seen | None:
    members = [engine for engine in engines if engine.counts.keys() >= _NEEDED and engine.seconds > 0]
    counts = {counter: sum([member.counts[counter] for member in members]) for counter in _NEEDED}
    drafts, steps = counts[Counter.DRAFTS], counts[Counter.DECODE_STEPS]
    tokens = counts[Counter.GENERATION_TOKENS] - counts[Counter.FIRST_TOKENS]
    step_seconds = counts[Counter.DECODE_STEP_SECONDS]
    needed = (drafts, steps, tokens, step_seconds, counts[Counter.DRAFT_TOKENS])
    if not all(LEAST < each < MOST for each in needed) or drafts < min_drafts:
        return None
    batches = [member.counts[Counter.DECODE_STEP_SECONDS] / member.seconds for member in members]
    return _Seen(
        batch_size=sum(batches),
        engine_batch_size=sum([batch**2 for batch in batches]) / sum(batches),
        busy=sum([min(1.0, batch) for batch in batches]) / len(batches),
        tokens_per_step=tokens / steps,
        coverage=min(1.0, drafts / steps),
        accepted_per_draft=counts[Counter.ACCEPTED_TOKENS] / drafts,
        mean_k=counts[Counter.DRAFT_TOKENS] / drafts,
        k=max(len(member.accepted_per_position) for member in members),
        rates=PerPosition(min_drafts).over(members),
        seconds_per_token=step_seconds / tokens,
        tokens_per_second=sum(_decoded(member) / member.seconds for member in members),
    )


_NEEDED = frozenset(
    [
        *(Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS),
        *(Counter.GENERATION_TOKENS, Counter.FIRST_TOKENS, Counter.DECODE_STEPS, Counter.DECODE_STEP_SECONDS),
    ]
)


def _decoded(engine: Increments) -> float:
    return engine.counts[Counter.GENERATION_TOKENS] - engine.counts[Counter.FIRST_TOKENS]


def _measured(engines: Sequence[Increments], seen: _Seen, basis: Basis) -> Speedup | None:
    plain = _plain_seconds(seen, basis)
    if plain is None:
        return None
    seconds, source = plain
    value = seconds / seen.seconds_per_token
    now = of_quantity(Quantity.SECONDS_PER_TOKEN, engines)
    low, high = (seconds / now.high, seconds / now.low) if now and now.low > 0 else (None, None)
    # A step brings tokens_per_step tokens in the time of this many plain ones.
    drafted_step = (seen.tokens_per_step / value - 1 + seen.coverage) / seen.coverage
    cost = _curve_cost(seen, basis.curve) if basis.curve else _only(round(seen.mean_k), drafted_step)
    return _advised(Speedup(value, low, high, SpeedupKind.MEASURED, source), seen, cost)


def _plain_seconds(seen: _Seen, basis: Basis) -> tuple[float, str] | None:
    """Plain decoding's seconds per token at today's batch size, and where they are from."""
    if basis.twins is not None:
        seconds = basis.twins.seconds(seen.engine_batch_size)
        if seconds is not None:
            at = f"{seen.engine_batch_size:.3g} requests at once in an engine"
            return seconds, f"measured: against servers of the same model without speculation, at {at}"
    if basis.curve is not None:
        seconds = basis.curve.plain_seconds(seen.batch_size)
        if seconds is not None:
            at = f"{seen.batch_size:.3g} requests at once"
            return seconds, f"measured: against the calibration's time per token without speculation, at {at}"
    return None


def _calibrated(engines: Sequence[Increments], seen: _Seen, basis: Basis) -> Speedup | None:
    if basis.curve is None or not basis.curve.covers(seen.batch_size):
        return None
    step = basis.curve.ratio(_costed_k(seen, basis), seen.batch_size)
    if step is None:
        return None
    mean_step = seen.mean_step(step)
    tokens = of_quantity(Quantity.TOKENS_PER_STEP, engines)
    speedup = Speedup(
        seen.tokens_per_step / mean_step,
        tokens.low / mean_step if tokens else None,
        tokens.high / mean_step if tokens else None,
        SpeedupKind.CALIBRATED,
        f"calibrated: step times measured on this deployment, at {seen.batch_size:.3g} requests at once",
    )
    return _advised(speedup, seen, _curve_cost(seen, basis.curve))


def _estimated(seen: _Seen, basis: Basis) -> Speedup | None:
    step: float | None = basis.cost.v + seen.mean_k * basis.cost.c
    cost: StepCost = partial(_assumed_step, basis.cost)
    source = basis.cost.source
    if basis.curve is not None and not basis.curve.covers(seen.batch_size):
        step, cost = basis.curve.ratio(_costed_k(seen, basis), seen.batch_size), _curve_cost(seen, basis.curve)
        largest = f"{basis.curve.largest_batch:.3g} requests at once"
        source = (
            f"step times were calibrated up to {largest}, it is {seen.batch_size:.3g} now, and steps cost more then"
        )
    if step is None or step <= 0:
        return None
    value = seen.tokens_per_step / seen.mean_step(step)
    return _advised(Speedup(value, *band(value), SpeedupKind.ESTIMATED, f"at most; {source}"), seen, cost)


def _costed_k(seen: _Seen, basis: Basis) -> float:
    """The K whose calibrated steps cost what today's do."""
    return seen.k if basis.drafts_vary or seen.mean_k >= seen.k - UNDRAFTED else seen.mean_k


def _assumed_step(cost: DraftCost, k: int) -> float:
    return cost.v + k * cost.c


def _curve_cost(seen: _Seen, curve: CostCurve) -> StepCost:
    return lambda k: curve.ratio(k, seen.batch_size)


def _only(measured_k: int, step: float) -> StepCost:
    """Nothing is known of another K than today's."""
    return lambda k: step if k == measured_k else None


def _advised(speedup: Speedup, seen: _Seen, cost: StepCost) -> Speedup:
    """With the break-even and the recommended K, both for steps that are drafted and cut off as today's are."""
    gains = seen.delivered
    mean_step = seen.tokens_per_step / speedup.value
    advice = recommend([None if rate is None else gains * rate for rate in seen.rates], partial(_whole, seen, cost))
    return replace(
        speedup,
        break_even_acceptance=max(0.0, mean_step - 1) / (gains * seen.mean_k) if gains > 0 else None,
        recommended_k=advice.k if advice else None,
        recommended_speedup=advice.speedup if advice else None,
    )


def _whole(seen: _Seen, cost: StepCost, k: int) -> float | None:
    step = cost(k)
    return None if step is None else seen.mean_step(step)


def _with_savings(speedup: Speedup, seen: _Seen, basis: Basis) -> Speedup:
    """With what speculation saves an hour, were it to go on like this window.

    An engine is taken to be busy all the time that at least one request decodes on average, and for less than one that
    share of the time: requests that overlap while others are far between make it less, so it is an upper limit.
    """
    busy = seen.busy * HOUR
    return replace(
        speedup,
        tokens_saved_per_hour=seen.tokens_per_second * HOUR * (1 - 1 / speedup.value),
        gpu_seconds_saved_per_hour=busy * basis.accelerators * (speedup.value - 1),
    )


def pooled(servers: Iterable[tuple[Speedup, float]]) -> Speedup | None:
    """The speedup of several servers together; None without any.

    Each comes with its decoding requests: time that all of them would have taken without speculation ÷ time that they
    took. It is known as well as the worst known of them, and no better.
    """
    members = [(speedup, weight) for speedup, weight in servers if weight > 0]
    total = sum(weight for _, weight in members)
    if not members:
        return None
    worst = max((speedup for speedup, _ in members), key=lambda speedup: _RANK[speedup.kind])

    def mean(values: Iterable[float | None]) -> float | None:
        parts = [None if value is None else value * weight for value, (_, weight) in zip(values, members, strict=True)]
        return None if None in parts else sum(part for part in parts if part is not None) / total

    return Speedup(
        value=sum(speedup.value * weight for speedup, weight in members) / total,
        low=mean(speedup.low for speedup, _ in members),
        high=mean(speedup.high for speedup, _ in members),
        kind=worst.kind,
        source=worst.source,
        tokens_saved_per_hour=_sum(speedup.tokens_saved_per_hour for speedup, _ in members),
        gpu_seconds_saved_per_hour=_sum(speedup.gpu_seconds_saved_per_hour for speedup, _ in members),
    )


_RANK = {kind: rank for rank, kind in enumerate(SpeedupKind)}
"""Best known first."""


def _sum(values: Iterable[float | None]) -> float | None:
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)
