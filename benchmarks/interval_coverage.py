"""Do 95 % confidence intervals hold the truth in 95 % of cases? Resampled traffic, the product's own code.

    python -m benchmarks.interval_coverage            # four minutes on one core; --quick for a smoke test

Servers are simulated request by request: a fixed number of slots, each with one request after another, every request
with an acceptance of its own (``specwatch.lab.scenario.Domain``) and a length of its own. Pages are read every few
seconds into a ``Ledger``, and intervals of the acceptance rate, the acceptance length and the first and last position
are asked for over 1, 5 and 30 minutes. The truth is the ratio over a run that is far longer.

Beside them stands a trace of a real vLLM server, resampled: its readings in random order, as often as are needed, and
their common ratio is the truth. Its requests live a quarter of a second and are read every two, so order is no matter.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specwatch.lab.scenario import FOREIGN, HOME, Domain, Traffic
from specwatch.signals.dispersion import Quantity
from specwatch.signals.interval import Interval, of_position, of_quantity
from specwatch.signals.window import Increments, Ledger
from specwatch.vllm.metrics import Counter, EngineSnapshot

STEP_SECONDS = 0.033
"""One speculative step: the lab's step cost of a 70 B model at K = 5."""
SCRAPE_SECONDS = 5.0
WINDOWS = (60.0, 300.0, 1800.0)
WARM_UP = 1800.0
"""Seconds before the first interval is asked for."""

TRUTH_SECONDS = 600_000.0
"""Slot-seconds of the run that tells the truth: its error is a sixth of a half-hour window's on eight slots."""


@dataclass(frozen=True)
class Case:
    """One kind of server."""

    name: str
    traffic: Traffic
    slots: int
    k: int = 5


RECORDED = Path(__file__).parent / "traces" / "lab-json-to-es.json"
RECORDED_LIFE = 0.25
"""Mean seconds that a request of the trace decodes: 4 at once make 400 steps a second, and an answer has 25."""


def with_tokens(domain: Domain, tokens: float) -> Domain:
    """The domain with answers of this mean length, and no limit on them."""
    return Domain(domain.name, domain.acceptance, domain.concentration, output_tokens=tokens, max_tokens=10**6)


MIXED = {with_tokens(HOME, 600): 0.7, with_tokens(FOREIGN, 600): 0.3}
CASES = (
    Case("short answers, 2 at once", HOME, 2),
    Case("short answers, 32 at once", HOME, 32),
    Case("long answers, 2 at once", with_tokens(HOME, 1500), 2),
    Case("long answers, 16 at once", with_tokens(FOREIGN, 1500), 16),
    Case("reasoning, 8 at once", with_tokens(HOME, 8000), 8),
    Case("two domains, 1 at once", MIXED, 1),
    Case("two domains, 8 at once", MIXED, 8),
    Case("two domains, 32 at once, K = 3", MIXED, 32, k=3),
    Case("requests all alike", Domain("alike", 0.8, math.inf), 4),
    Case("answers run into the limit", Domain("limit", 0.7, 10.0, output_tokens=1000, max_tokens=1000), 8),
)


def slot(case: Case, steps: int, source: random.Random, dice: np.random.Generator) -> NDArray[np.int64]:
    """Accepted tokens of each step of one slot, and where requests end: an array of two columns."""
    parts: list[NDArray[np.int64]] = []
    filled = 0
    while filled < steps:
        domain = pick(case.traffic, source)
        survival = np.array(domain.survival(case.k, source))[::-1]
        tokens = max(2, min(round(source.expovariate(1 / domain.output_tokens)), domain.max_tokens))
        accepted = case.k - np.searchsorted(survival, dice.random(tokens), side="right")
        taken = int(np.searchsorted(np.cumsum(accepted + 1), tokens - 1)) + 1
        part = np.zeros((taken, 2), dtype=np.int64)
        part[:, 0] = accepted[:taken]
        part[-1, 1] = tokens
        parts.append(part)
        filled += taken
    made: NDArray[np.int64] = np.concatenate(parts)[:steps]
    return made


def pick(traffic: Traffic, source: random.Random) -> Domain:
    """The traffic's domain, or one of several by weight."""
    if isinstance(traffic, Domain):
        return traffic
    return source.choices(list(traffic), list(traffic.values()))[0]


@dataclass
class Totals:
    """Counters of the whole server, scrape by scrape: the rows of cumulative sums."""

    counters: dict[Counter, NDArray[np.float64]]
    positions: NDArray[np.float64]

    def page(self, row: int) -> EngineSnapshot:
        """What the server's page says at one scrape."""
        return EngineSnapshot(
            counters={counter: float(values[row]) for counter, values in self.counters.items()},
            accepted_per_position=tuple(float(value) for value in self.positions[row]),
        )


def simulate(case: Case, seconds: float, seed: int) -> Totals:
    """A server's counters at every scrape."""
    source, dice = random.Random(seed), np.random.default_rng(seed)  # noqa: S311 (a simulation)
    steps = int(seconds / STEP_SECONDS)
    ends = (np.arange(0, seconds, SCRAPE_SECONDS)[1:] / STEP_SECONDS).astype(int)
    accepted_in_draft = np.zeros((len(ends), case.k + 1))
    finished, tokens = np.zeros(len(ends)), np.zeros(len(ends))
    for _ in range(case.slots):
        made = slot(case, steps, source, dice)
        for accepted in range(case.k + 1):
            accepted_in_draft[:, accepted] += np.concatenate([[0], np.cumsum(made[:, 0] == accepted)])[ends]
        finished += np.concatenate([[0], np.cumsum(made[:, 1] > 0)])[ends]
        tokens += np.concatenate([[0], np.cumsum(made[:, 1])])[ends]
    drafts = accepted_in_draft.sum(axis=1)
    positions = np.stack([accepted_in_draft[:, i + 1 :].sum(axis=1) for i in range(case.k)], axis=1)
    return Totals(
        counters={
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: drafts * case.k,
            Counter.ACCEPTED_TOKENS: positions.sum(axis=1),
            Counter.FINISHED_REQUESTS: finished,
            Counter.FINISHED_TOKENS: tokens,
            # One slot always decodes: the seconds of all steps, those of unfinished requests lagging behind.
            Counter.FINISHED_DECODE_SECONDS: drafts * STEP_SECONDS,
        },
        positions=positions,
    )


Values = dict[str, float]
"""Of one window or of the truth, by quantity."""


def asked(engine: Increments) -> dict[str, Interval | None]:
    """Every interval of one window."""
    found = {
        "rate": of_quantity(Quantity.ACCEPTANCE_RATE, [engine]),
        "length": of_quantity(Quantity.ACCEPTED_PER_DRAFT, [engine]),
    }
    if engine.accepted_per_position:
        last = len(engine.accepted_per_position) - 1
        found |= {"first position": of_position(0, [engine]), "last position": of_position(last, [engine])}
    return found


def truth(totals: Totals) -> Values:
    """The ratios over a whole run."""
    page = totals.page(-1)
    drafts = page.counters[Counter.DRAFTS]
    accepted = page.counters[Counter.ACCEPTED_TOKENS]
    found = {"rate": accepted / page.counters[Counter.DRAFT_TOKENS], "length": accepted / drafts}
    if page.accepted_per_position:
        first, *_, last = page.accepted_per_position
        found |= {"first position": first / drafts, "last position": last / drafts}
    return found


def recorded() -> NDArray[np.float64]:
    """Drafts, draft tokens and accepted tokens of each reading of the trace, of the draft's own domain."""
    rows = json.loads(RECORDED.read_text())["rows"]
    return np.array([counts for domain, _, *counts in rows if domain == "json"])


def resampled(readings: NDArray[np.float64], scrapes: int, seed: int) -> Totals:
    """A server whose scrapes are these readings, drawn with replacement."""
    dice = np.random.default_rng(seed)
    totals = np.cumsum(readings[dice.integers(0, len(readings), scrapes)], axis=0)
    ends = np.linspace(1, scrapes, scrapes) * (SCRAPE_SECONDS / RECORDED_LIFE)
    counters = (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS)
    return Totals(
        counters={
            **{counter: totals[:, i] for i, counter in enumerate(counters)},
            Counter.FINISHED_REQUESTS: ends,
            Counter.FINISHED_DECODE_SECONDS: ends * RECORDED_LIFE,
        },
        positions=np.zeros((scrapes, 0)),
    )


def windows(totals: Totals) -> Iterator[tuple[float, Increments]]:
    """The windows of one run, none overlapping another of its length."""
    ledger = Ledger(keep_seconds=max(WINDOWS))
    for row in range(len(totals.positions)):
        at = row * SCRAPE_SECONDS
        ledger.observe(at, totals.page(row))
        for window in WINDOWS:
            if at >= WARM_UP and at % window == 0 and (found := ledger.over(window, at)):
                yield window, found


@dataclass
class Score:
    """How often intervals held the truth."""

    asked: int = 0
    told: int = 0
    held: int = 0
    width: float = 0.0

    def add(self, other: Score) -> None:
        """Take in another's cases."""
        self.asked, self.told = self.asked + other.asked, self.told + other.told
        self.held, self.width = self.held + other.held, self.width + other.width


Scores = Mapping[tuple[float, str], Score]
"""By window and quantity."""


def judge(case: Case, runs: int, seconds: float) -> Scores:
    """Coverage on a simulated server."""
    true = truth(simulate(case, TRUTH_SECONDS / case.slots, seed=10**6))
    return count(true, (simulate(case, seconds, seed) for seed in range(runs)))


def judge_recorded(runs: int, seconds: float) -> Scores:
    """Coverage on the recorded server."""
    readings = recorded()
    drafts, tokens, accepted = readings.sum(axis=0)
    true = {"rate": float(accepted / tokens), "length": float(accepted / drafts)}
    return count(true, (resampled(readings, int(seconds / SCRAPE_SECONDS), seed) for seed in range(runs)))


def count(true: Values, runs: Iterable[Totals]) -> Scores:
    """How many of the intervals of these runs hold the truth."""
    scores: dict[tuple[float, str], Score] = defaultdict(Score)
    for totals in runs:
        for window, increments in windows(totals):
            for name, interval in asked(increments).items():
                score = scores[window, name]
                score.asked += 1
                if interval is not None:
                    score.told += 1
                    score.held += interval.low <= true[name] <= interval.high
                    score.width += interval.high - interval.low
    return scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--hours", type=float, default=2.0, help="length of a run")
    parser.add_argument("--quick", action="store_true", help="a few runs of one case")
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    options = parser.parse_args(arguments)
    cases = [case for case in CASES if options.case in case.name]
    runs, seconds = options.runs, options.hours * 3600
    if options.quick:
        cases, runs, seconds = cases[:1], 2, 1.0 * 3600
    print(f"{'case':32} {'window':>6} {'quantity':15} {'asked':>6} {'told':>6} {'held':>7} {'mean width':>11}")
    total: dict[tuple[float, str], Score] = defaultdict(Score)
    for case in cases:
        scores = judge(case, runs, seconds)
        show(case.name, scores)
        for key, score in scores.items():
            total[key].add(score)
    if len(cases) > 1:
        show("all together", total)
        show("recorded, resampled", judge_recorded(runs * 5, seconds))


def show(name: str, scores: Scores) -> None:
    """Print one case's rows."""
    for (window, quantity), score in sorted(scores.items()):
        held = f"{score.held / score.told:.1%}" if score.told else "-"
        width = f"{score.width / score.told:.4f}" if score.told else "-"
        row = f"{name:32} {window:6.0f} {quantity:15} {score.asked:6} {score.told:6} {held:>7} {width:>11}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
