"""Measure how soon a fall of acceptance is found, and how often one is found that is none.

    python -m benchmarks.drift

simulates servers, request by request, and lets specwatch's detector, the rule that articles print and river's detectors
watch them; prints tables, and with --write puts them and a figure into docs/drift.md. Whatever can be tuned is tuned
first for every load, on healthy months of its own, to as many false alarms as ours raises there as it comes. Seeded:
the same tables come out again.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pool
from multiprocessing.pool import Pool as PoolType
from pathlib import Path

import numpy as np

from benchmarks.drift_bound import BETWEEN_FALSE_ALARMS, bound, bound_after_learning, information
from benchmarks.drift_contenders import BY_NAME, ENTRIES, OURS
from benchmarks.drift_report import draw, report, write
from benchmarks.drift_results import Delays, Results, Row, Setting, Size
from benchmarks.drift_scenarios import (
    DIURNAL,
    SIX,
    STEPS,
    USUAL,
    Step,
    Traffic,
    healthy,
    load_of_day,
    recorded,
    trial,
)
from benchmarks.drift_traces import DAY, Counts, with_rate

DOCS = Path(__file__).parent.parent / "docs"
PAGE, FIGURE = DOCS / "drift.md", DOCS / "images" / "drift.png"

TUNING_SEED = 1000
"""Healthy months from here on are for tuning; those from 0 on are judged."""


SMOKE = Size(months=1, others=1, days=1, steps=1, slow_days=1, tuning_steps=1, trials=0.01, slow_trials=1)
"""Runs through everything in seconds, and shows nothing."""


def alarms(setting: Setting, counted: Counts) -> Iterator[int]:
    """Intervals at which an alarm began. A new K starts the others anew; ours finds out itself."""
    detector, k = setting.make(), int(counted.k[0])
    columns = (counted.drafts.tolist(), counted.draft_tokens.tolist(), counted.accepted.tolist(), counted.k.tolist())
    for i, (drafts, tokens, accepted, now) in enumerate(zip(*columns, strict=True)):
        if now != k and setting.name != OURS:
            detector = setting.make()
        k = now
        if detector.update(drafts, tokens, accepted):
            yield i


def false_alarms(setting: Setting, seed: int, days: int = 30, traffic: Traffic = DIURNAL) -> int:
    """False alarms in a healthy month, or fewer days."""
    return sum(1 for _ in alarms(setting, healthy(seed, days, traffic)))


def tune(name: str, size: Size, traffic: Traffic, a_month: float) -> Setting:
    """The keenest parameter that raises at most so many false alarms on the tuning streams, by bisection.

    One in all of them is always allowed: none would be a demand that ours does not meet either.
    """
    entry = BY_NAME[name]
    if not entry.tuned:
        return Setting(name)
    days, months = (size.slow_days, 1) if entry.slow else (size.days, size.others)
    allowed = max(1.0, a_month * months * days / 30)
    low, high = 0.0, 1.0
    for _ in range(size.tuning_steps):
        middle = (low + high) / 2
        setting, total = Setting(name, entry.setting(middle)), 0
        for month in range(months):
            total += false_alarms(setting, TUNING_SEED + month, days, traffic)
            if total > allowed:
                break
        low, high = (low, middle) if total > allowed else (middle, high)
    return Setting(name, entry.setting(low))


def one_trial(settings: Sequence[Setting], step: Step, seed: int) -> list[int | None]:
    """Every contender's delay; 0 where it alarmed before the change."""
    counted, change = trial(step, seed)
    return [_delay(setting, counted, change) for setting in settings]


def _delay(setting: Setting, counted: Counts, change: int) -> int | None:
    first = next(alarms(setting, counted), None)
    return None if first is None else max(0, first - change + 1)


def gather(step: Step, outcomes: Sequence[Sequence[int | None]]) -> list[Delays]:
    """Trials by contender."""
    return [
        Delays(tuple(d for d in column if d != 0), sum(d == 0 for d in column), step.longest)
        for column in zip(*outcomes, strict=True)
    ]


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
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    size, began = (SMOKE if options.smoke else Size()), time.monotonic()
    with Pool(options.processes) as pool:
        results = measure(pool, size)
    text = report(results)
    print(text)
    print(f"{time.monotonic() - began:.0f} s on {options.processes} processes")
    if options.write:
        write(text, PAGE)
        draw(results, FIGURE)


def measure(pool: PoolType, size: Size) -> Results:
    """Count our false alarms, tune the others to as many, time the delays."""
    steps = STEPS[: size.steps]
    loads = list(dict.fromkeys([DIURNAL, SIX, *(step.traffic for step in steps)]))
    settings: dict[Traffic, dict[str, Setting]] = {}
    wrong: dict[Traffic, dict[str, list[int]]] = {}
    for traffic in loads:
        ours = _healthy_months(pool, Setting(OURS), size, traffic)
        chosen = [entry.name for entry in ENTRIES if not entry.slow or traffic == SIX]
        keenest = partial(tune, size=size, traffic=traffic, a_month=sum(ours) / len(ours))
        settings[traffic] = dict(zip(chosen, pool.map(keenest, chosen, chunksize=1), strict=True))
        others = [setting for name, setting in settings[traffic].items() if name != OURS]
        wrong[traffic] = {OURS: ours} | {each.name: _healthy_months(pool, each, size, traffic) for each in others}
    return Results(
        size=size,
        settings=settings,
        false_alarms=wrong,
        rows=[_row(pool, step, settings[step.traffic], size) for step in steps],
        eighth=pool.map(partial(one_of_eight, Setting(OURS), Step(0.10)), range(math.ceil(20 * size.trials))),
        blindness=blindness(),
        recorded=on_recorded(list(settings[SIX].values())),
    )


def _healthy_months(pool: PoolType, setting: Setting, size: Size, traffic: Traffic) -> list[int]:
    if setting.entry.slow:
        return [false_alarms(setting, 0, size.slow_days, traffic)]
    months = size.months if setting.name == OURS and traffic.diurnal else size.others
    return pool.map(partial(false_alarms, setting, days=size.days, traffic=traffic), range(months), chunksize=1)


def _row(pool: PoolType, step: Step, settings: Mapping[str, Setting], size: Size) -> Row:
    delays: dict[str, Delays] = {}
    for slow in (False, True):
        chosen = [setting for setting in settings.values() if setting.entry.slow is slow]
        trials = math.ceil((size.slow_trials if slow else step.trials) * size.trials)
        outcomes = pool.map(partial(one_trial, chosen, step), range(trials), chunksize=1) if chosen else []
        gathered = gather(step, outcomes) if chosen else []
        delays |= {setting.name: delay for setting, delay in zip(chosen, gathered, strict=True)}
    known = limit(step)
    learned = None if known is None or step.traffic.diurnal else bound_after_learning(known, step.known)
    return Row(step, known, learned, delays)


if __name__ == "__main__":
    main()
