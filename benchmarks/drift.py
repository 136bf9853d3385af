"""Measure how soon a fall of acceptance is found, and how often one is found that is none.

    python -m benchmarks.drift

simulates servers, request by request, and lets specwatch's detector, the rule that articles print and river's detectors
watch them; prints tables, and with --write puts them and a figure into docs/drift.md. Whatever can be tuned is tuned
for every load to no more false alarms than ours raises on the same healthy months (``drift_tuning``); delays are
compared pair by pair on the same trials. Seeded: the same tables come out again.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pool
from multiprocessing.pool import Pool as PoolType
from pathlib import Path

import numpy as np

from benchmarks.drift_bound import BETWEEN_FALSE_ALARMS, bound, bound_after_learning, information
from benchmarks.drift_contenders import OURS
from benchmarks.drift_report import draw, report, write
from benchmarks.drift_results import Delays, Judged, Results, Row, Setting, Size
from benchmarks.drift_scenarios import (
    DIURNAL,
    SIX,
    STEPS,
    USUAL,
    Step,
    Traffic,
    load_of_day,
    recorded,
    trial,
)
from benchmarks.drift_traces import DAY, Counts, with_rate
from benchmarks.drift_tuning import alarms, judge

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "drift.md", DOCS / "images" / "drift.png"

SMOKE = Size(months=1, others=1, days=1, steps=1, slow_days=1, tuning_steps=1, trials=0.01, slow_trials=1)
"""Runs through everything in seconds, and shows nothing."""


def one_trial(settings: Sequence[Setting], step: Step, seed: int) -> list[int | None]:
    """Every contender's delay; 0 where it alarmed before the change."""
    counted, change = trial(step, seed)
    return [_delay(setting, counted, change) for setting in settings]


def _delay(setting: Setting, counted: Counts, change: int) -> int | None:
    first = next(alarms(setting, counted), None)
    return None if first is None else max(0, first - change + 1)


def limit(step: Step) -> float | None:
    """Lorden's bound in intervals; for a diurnal load the mean time in which the information adds up to ln T."""
    if step.over:
        return None
    before, busiest = step.traffic.kind, step.traffic.requests
    if not step.traffic.diurnal:
        return bound(before, step.after(), busiest)
    loads = (0.1, 0.5, 2.0, busiest)
    told = [information(before, step.after(), load) for load in loads]
    day = load_of_day(busiest, 3 * DAY)
    total = np.cumsum(np.interp(day, (0.0, *loads), (0.0, *told)))
    starts = np.arange(0, DAY, 60)
    ends = np.searchsorted(total, total[starts] + math.log(BETWEEN_FALSE_ALARMS))
    return float(np.mean(ends - starts))


def one_of_eight(setting: Setting, step: Step, seed: int) -> tuple[int | None, int, int | None]:
    """Delay on the replica that changes, alarms of the seven others, and delay of a detector on the fleet's sums."""
    healthy_step = replace(step, points=0.0)
    fleet = [trial(step, seed), *(trial(healthy_step, seed * 100 + i) for i in range(1, 8))]
    counted, change = fleet[0]
    others = sum(sum(1 for _ in alarms(setting, other)) for other, _ in fleet[1:])
    length = min(len(other) for other, _ in fleet)
    summed = Counts(
        np.sum([other.drafts[:length] for other, _ in fleet], axis=0),
        np.sum([other.accepted[:length] for other, _ in fleet], axis=0),
        counted.k[:length],
    )
    return _delay(setting, counted, change), others, _delay(setting, summed, change)


def blindness(seed: int = 7, days: int = 2) -> list[tuple[str, str, str]]:
    """The plain rule and ours on healthy 0.45, and on a fall from 0.90 to 0.65."""
    ours, plain = Setting(OURS), Setting("rule 0.60")
    low, high = with_rate(USUAL, 0.45), with_rate(USUAL, 0.90)
    steady, _ = trial(Step(0.0, Traffic(kind=low), longest=days * DAY), seed)
    fallen, change = trial(Step(0.25, Traffic(kind=high), longest=days * DAY), seed)
    rates = np.convolve(steady.accepted, np.ones(20)) / np.convolve(steady.draft_tokens, np.ones(20))
    firing = f"fires {np.mean(rates < 0.60):.1%} of the time"
    found = list(alarms(ours, fallen))
    return [
        ("healthy at 0.45", firing, f"{len(list(alarms(ours, steady)))} alarms"),
        (
            "0.90 falls to 0.65",
            f"{len(list(alarms(plain, fallen)))} alarms in {days} days",
            f"after {found[0] - change + 1}",
        ),
    ]


def on_recorded(settings: Sequence[Setting]) -> list[tuple[str, str]]:
    """Where each contender alarmed on the real trace."""
    domains, counted = recorded()
    changes = [i for i in range(1, len(domains)) if domains[i] != domains[i - 1]]
    told = []
    for setting in settings:
        at = list(alarms(setting, counted))
        words = [f"{sum(i < changes[0] for i in at)} before"]
        for begin, end in ((changes[0], changes[1]), (changes[2], len(domains))):
            late = [i - begin + 1 for i in at if begin <= i < end]
            words.append(f"{domains[begin]} after {late[0]}" if late else f"{domains[begin]} not found")
        told.append((setting.name, ", ".join(words)))
    return told


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds through everything, that shows nothing")
    parser.add_argument("--write", action="store_true", help="put the tables and the figure into docs/")
    parser.add_argument("--first", type=int, default=Size.first, help="seed of the first month and trial")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    size, began = replace(SMOKE if options.smoke else Size(), first=options.first), time.monotonic()
    with Pool(options.processes) as pool:
        results = measure(pool, size)
    text = report(results)
    print(text)
    print(f"{time.monotonic() - began:.0f} s on {options.processes} processes")
    if options.write:
        write(text, PAGE)
        draw(results, FIGURE)


def measure(pool: PoolType, size: Size) -> Results:
    """Count our false alarms, tune the others to no more, time the delays."""
    steps = STEPS[: size.steps]
    judged = {
        traffic: judge(pool, size, traffic) for traffic in dict.fromkeys([DIURNAL, SIX, *(s.traffic for s in steps)])
    }
    limits = pool.map(limit, steps, chunksize=1)
    return Results(
        judged=judged,
        rows=[_row(pool, step, known, judged[step.traffic], size) for step, known in zip(steps, limits, strict=True)],
        eighth=pool.map(partial(one_of_eight, Setting(OURS), Step(0.10)), size.seeds(math.ceil(20 * size.trials))),
        blindness=blindness(),
        recorded=on_recorded([each.setting for each in judged[SIX].values()]),
    )


def _row(pool: PoolType, step: Step, known: float | None, judged: Mapping[str, Judged], size: Size) -> Row:
    delays: dict[str, Delays] = {}
    for slow in (False, True):
        chosen = [each.setting for each in judged.values() if each.setting.entry.slow is slow]
        trials = size.seeds(math.ceil((size.slow_trials if slow else step.trials) * size.trials))
        outcomes = pool.map(partial(one_trial, chosen, step), trials, chunksize=1) if chosen else []
        for setting, by_trial in zip(chosen, zip(*outcomes, strict=True), strict=True):
            delays[setting.name] = Delays(by_trial, step.longest)
    learned = None if known is None or step.traffic.diurnal else bound_after_learning(known, step.known)
    return Row(step, known, learned, delays)


if __name__ == "__main__":
    main()
