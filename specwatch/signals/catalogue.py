"""The signal catalogue: every signal once, for the sidecar's metrics, the rules, the dashboards and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial

from specwatch.signals.correction import delivered_rate, length_without_dummies, rate_without_dummies, truncated_share
from specwatch.signals.dispersion import Quantity
from specwatch.signals.formula import Computed, Formula, PerPosition, Ratio, Terms
from specwatch.signals.interval import Interval, of_quantity
from specwatch.signals.speedup import ASSUMED, DraftCost, speedup_formula
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter


class Unit(str, Enum):
    """Units as they end a metric's name."""

    RATIO = "ratio"
    TOKENS = "tokens"
    SECONDS = "seconds"
    REQUESTS = "requests"
    TOKENS_PER_SECOND = "tokens_per_second"


MIN_DRAFTS = 30
"""Drafts in a window below which acceptance has no value: even independent draft tokens, at K = 5 and a rate of
one half, would then leave a 95 % interval wider than ± 0.08, and tokens of one request are not independent."""

_ENOUGH = {Counter.DRAFTS: float(MIN_DRAFTS)}

_COUNTS_TOKENS: Terms = {Counter.DRAFT_TOKENS: 0.0}
"""Asks for a counter that the V0 engine has no true one of: with speculation it counts one generated token a step."""


@dataclass(frozen=True)
class Signal:
    """One derived quantity.

    ``name`` is how the project speaks of it; the sidecar exports it as ``specwatch_<name>_<unit>``, and the
    recording rules as ``<level>:specwatch_<name>:<operation>``.
    """

    name: str
    unit: Unit
    title: str
    help: str
    formula: Formula

    @property
    def in_promql(self) -> bool:
        """Whether rules and dashboards can ask Prometheus for it; otherwise the sidecar alone tells it."""
        return self.formula.in_promql

    @property
    def metric(self) -> str:
        """Name of the sidecar's metric."""
        return f"specwatch_{self.name}_{self.unit.value}"


@lru_cache(maxsize=16)
def signals(cost: DraftCost = ASSUMED) -> tuple[Signal, ...]:
    """All signals, the estimated speedup at this draft cost."""
    return (*_ACCEPTANCE, *_BOUNDS, *_CORRECTIONS, _speedup(cost), *_SERVING)


@lru_cache(maxsize=16)
def by_name(cost: DraftCost = ASSUMED) -> Mapping[str, Signal]:
    """The same by their names."""
    return {entry.name: entry for entry in signals(cost)}


_ACCEPTANCE = (
    Signal(
        "acceptance_rate",
        Unit.RATIO,
        "Acceptance rate",
        "Accepted draft tokens ÷ draft tokens.",
        Ratio(
            {Counter.ACCEPTED_TOKENS: 1.0},
            {Counter.DRAFT_TOKENS: 1.0},
            at_least={Counter.DRAFT_TOKENS: MIN_DRAFTS},
            is_share=True,
        ),
    ),
    Signal(
        "acceptance_length",
        Unit.TOKENS,
        "Acceptance length",
        "Mean tokens per drafted step, the target's own bonus token included.",
        Ratio({Counter.ACCEPTED_TOKENS: 1.0}, {Counter.DRAFTS: 1.0}, offset=1.0, at_least=_ENOUGH),
    ),
    Signal(
        "draft_length",
        Unit.TOKENS,
        "Mean K",
        "Draft tokens ÷ drafts: what was proposed, which n-gram, suffix and dynamic schedules keep below K.",
        Ratio({Counter.DRAFT_TOKENS: 1.0}, {Counter.DRAFTS: 1.0}, at_least=_ENOUGH),
    ),
    Signal(
        "position_acceptance",
        Unit.RATIO,
        "Acceptance by position",
        "Share of drafts whose token at this position was accepted; position 0 is drafted first.",
        PerPosition(at_least=MIN_DRAFTS),
    ),
    Signal(
        "conditional_acceptance",
        Unit.RATIO,
        "Conditional acceptance by position",
        "Share of drafts whose token at this position was accepted, of those whose tokens before it all were. What "
        "the draft knows at this position; a change of domain moves it first.",
        PerPosition(at_least=MIN_DRAFTS, conditional=True),
    ),
    Signal(
        "draft_coverage",
        Unit.RATIO,
        "Coverage",
        "Share of decode steps that were drafted; a dynamic schedule at K = 0 takes it to 0.",
        Ratio({Counter.DRAFTS: 1.0}, {Counter.DECODE_STEPS: 1.0}, at_least={Counter.DECODE_STEPS: MIN_DRAFTS}),
    ),
)


class _Ends:
    """Both ends of a quantity's 95 % confidence interval, computed once for the window that they are asked for."""

    def __init__(self, quantity: Quantity, offset: float) -> None:
        self._quantity, self._offset = quantity, offset
        self._engines: Sequence[Increments] = ()
        self._interval: Interval | None = None

    def of(self, end: str) -> Computed:
        """One end, ``low`` or ``high``."""
        words = f"{end} end of the ratio ± t · √(its variance ÷ its denominator)"
        return Computed(partial(self._compute, end), words)

    def _compute(self, end: str, engines: Sequence[Increments]) -> float | None:
        if engines is not self._engines:
            self._engines = engines
            self._interval = of_quantity(self._quantity, engines, min_drafts=MIN_DRAFTS)
        return None if self._interval is None else self._offset + getattr(self._interval, end)


_BOUNDS = tuple(
    Signal(
        f"{name}_{end}",
        unit,
        f"{title}, {end} end",
        f"The {end} end of the 95 % confidence interval of the {title.lower()}, from the spread measured between "
        "batches of requests: requests differ, so it is several times wider than independent tokens would make it.",
        ends.of(end),
    )
    for name, unit, title, ends in (
        ("acceptance_rate", Unit.RATIO, "Acceptance rate", _Ends(Quantity.ACCEPTANCE_RATE, 0.0)),
        ("acceptance_length", Unit.TOKENS, "Acceptance length", _Ends(Quantity.ACCEPTED_PER_DRAFT, 1.0)),
        ("tokens_per_step", Unit.TOKENS, "Tokens per decode step", _Ends(Quantity.TOKENS_PER_STEP, 0.0)),
    )
    for end in ("low", "high")
)

_CORRECTIONS = (
    Signal(
        "acceptance_rate_without_dummies",
        Unit.RATIO,
        "Acceptance rate, without dummy drafts",
        "Acceptance rate without the dummy drafts that vLLM 0.25 and later book as rejected when a prompt is in the "
        "prefix cache. They show as more drafts than decode steps; what hides behind undrafted steps stays in.",
        Computed(partial(rate_without_dummies, min_drafts=MIN_DRAFTS), "A ÷ N · max(1, D ÷ S)"),
    ),
    Signal(
        "acceptance_length_without_dummies",
        Unit.TOKENS,
        "Acceptance length, without dummy drafts",
        "Acceptance length without the dummy drafts that vLLM 0.25 and later book as rejected when a prompt is in the "
        "prefix cache.",
        Computed(partial(length_without_dummies, min_drafts=MIN_DRAFTS), "1 + A ÷ min(D, S)"),
    ),
    Signal(
        "delivered_acceptance_rate",
        Unit.RATIO,
        "Acceptance rate, delivered",
        "Accepted draft tokens that reached the request ÷ draft tokens: vLLM also counts those behind a stop or "
        "max_tokens, which are thrown away.",
        delivered_rate(MIN_DRAFTS),
    ),
    Signal(
        "truncated_share",
        Unit.RATIO,
        "Accepted and thrown away",
        "Share of the accepted draft tokens that lay behind their request's end: the more, the shorter the answers.",
        truncated_share(MIN_DRAFTS),
    ),
)


def _speedup(cost: DraftCost) -> Signal:
    return Signal(
        "estimated_speedup",
        Unit.RATIO,
        "Speedup, estimated",
        "Speed of drafted steps ÷ speed without speculation, from acceptance and a draft cost that is assumed or "
        "taken from the models' sizes. An upper bound: overhead that does not shrink with the draft is left out.",
        speedup_formula(cost, at_least=_ENOUGH),
    )


_SERVING = (
    Signal(
        "tokens_per_step",
        Unit.TOKENS,
        "Tokens per decode step",
        "Tokens generated ÷ decode steps, undrafted steps and truncation at the end of requests included.",
        Ratio(
            {Counter.GENERATION_TOKENS: 1.0, Counter.FIRST_TOKENS: -1.0},
            {Counter.DECODE_STEPS: 1.0},
            at_least={Counter.DECODE_STEPS: MIN_DRAFTS, **_COUNTS_TOKENS},
        ),
    ),
    Signal(
        "tpot",
        Unit.SECONDS,
        "Mean TPOT",
        "Mean time per output token of the requests that ended.",
        Ratio(
            {Counter.FINISHED_DECODE_SECONDS: 1.0},
            {Counter.FINISHED_TOKENS: 1.0, Counter.FINISHED_REQUESTS: -1.0},
        ),
    ),
    Signal(
        "token_latency",
        Unit.SECONDS,
        "Mean TPOT of the window",
        "Decode time ÷ tokens made in it: mean TPOT without waiting for requests to end. Speedup is judged by it.",
        Ratio(
            {Counter.DECODE_STEP_SECONDS: 1.0},
            {Counter.GENERATION_TOKENS: 1.0, Counter.FIRST_TOKENS: -1.0},
            at_least={Counter.DECODE_STEPS: MIN_DRAFTS, **_COUNTS_TOKENS},
        ),
    ),
    Signal(
        "step_latency",
        Unit.SECONDS,
        "Mean ITL",
        "Mean time between the outputs of a request: one decode step, however many tokens it brought.",
        Ratio({Counter.DECODE_STEP_SECONDS: 1.0}, {Counter.DECODE_STEPS: 1.0}),
    ),
    Signal(
        "generation_throughput",
        Unit.TOKENS_PER_SECOND,
        "Generated tokens per second",
        "Tokens generated per second.",
        Ratio({Counter.GENERATION_TOKENS: 1.0}),
    ),
    Signal(
        "draft_throughput",
        Unit.TOKENS_PER_SECOND,
        "Draft tokens per second",
        "Tokens proposed and verified per second.",
        Ratio({Counter.DRAFT_TOKENS: 1.0}),
    ),
    Signal(
        "accepted_throughput",
        Unit.TOKENS_PER_SECOND,
        "Accepted draft tokens per second",
        "Draft tokens accepted per second.",
        Ratio({Counter.ACCEPTED_TOKENS: 1.0}),
    ),
    Signal(
        "wasted_throughput",
        Unit.TOKENS_PER_SECOND,
        "Wasted draft tokens per second",
        "Draft tokens rejected per second: work that was done for nothing.",
        Ratio({Counter.DRAFT_TOKENS: 1.0, Counter.ACCEPTED_TOKENS: -1.0}),
    ),
    Signal(
        "running_requests",
        Unit.REQUESTS,
        "Batch size",
        "Mean number of requests in the batch.",
        Ratio({Counter.RUNNING_SECONDS: 1.0}),
    ),
    Signal(
        "decoding_requests",
        Unit.REQUESTS,
        "Decoding requests",
        "Mean number of requests that decode at once: decode time per second, which by Little's law is exact, where "
        "a scraped gauge is a sample.",
        Ratio({Counter.DECODE_STEP_SECONDS: 1.0}),
    ),
    Signal(
        "waiting_requests",
        Unit.REQUESTS,
        "Queue",
        "Mean number of requests waiting.",
        Ratio({Counter.WAITING_SECONDS: 1.0}),
    ),
)

Value = float | tuple[float | None, ...] | None
"""A signal's value: a number, one a position, or None without enough to say."""


class LazyValues(Mapping[str, Value]):
    """Every signal over one window, by name, each worked out when somebody first asks for it."""

    def __init__(self, catalogue: Mapping[str, Signal], engines: Sequence[Increments]) -> None:
        self._catalogue = catalogue
        self._engines = engines
        self._known: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._known:
            self._known[name] = self._catalogue[name].formula.over(self._engines)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._catalogue)

    def __len__(self) -> int:
        return len(self._catalogue)


def evaluate(catalogue: Sequence[Signal], engines: Sequence[Increments]) -> dict[str, Value]:
    """Every signal over these engines, by name."""
    return {signal.name: signal.formula.over(engines) for signal in catalogue}


def signal(name: str) -> Signal:
    """The signal of that name, at the assumed draft cost; KeyError for an unknown one."""
    return by_name()[name]
