"""Equal false alarms: the keenest setting of each detector that raises no more than ours on the same healthy months."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.pool import Pool

from benchmarks.drift_contenders import BY_NAME, ENTRIES, OURS
from benchmarks.drift_results import Judged, Setting, Size
from benchmarks.drift_scenarios import DIURNAL, SIX, Traffic, healthy
from benchmarks.drift_traces import Counts

BATCH = 4
"""Months after which settings that have raised too many already are dropped."""


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


def judge(pool: Pool, size: Size, traffic: Traffic) -> dict[str, Judged]:
    """Ours as it comes and every other tuned, with their false alarms, by name.

    The others are chosen on the very months that are reported: what chance does there favours them.
    """
    months = size.months if traffic in (DIURNAL, SIX) else size.others
    ours = count(pool, [Setting(OURS)], size.seeds(months), size.days, traffic)[0]
    found = {OURS: Judged(Setting(OURS), ours, size.days)}
    for share in sorted({entry.share for entry in ENTRIES if not entry.slow}, reverse=True):
        names = [entry.name for entry in ENTRIES if entry.share == share and not entry.slow and entry.name != OURS]
        some = max(1, round(share * months))
        found |= _tuned(pool, names, size, traffic, size.days, ours[:some])
    if traffic == SIX:
        slow = [entry.name for entry in ENTRIES if entry.slow]
        few = count(pool, [Setting(OURS)], size.seeds(1), size.slow_days, traffic)[0]
        found |= _tuned(pool, slow, size, traffic, size.slow_days, few)
    return {entry.name: found[entry.name] for entry in ENTRIES if entry.name in found}


def _tuned(
    pool: Pool, names: Sequence[str], size: Size, traffic: Traffic, days: int, ours: Sequence[int]
) -> dict[str, Judged]:
    """The keenest settings that raise no more alarms than ``ours``, one of a month, by bisection."""
    months = size.seeds(len(ours))
    low, high = dict.fromkeys(names, 0.0), dict.fromkeys(names, 1.0)
    for _ in range(size.tuning_steps):
        middle = {name: (low[name] + high[name]) / 2 for name in names if BY_NAME[name].tuned}
        settings = [Setting(name, BY_NAME[name].setting(keenness)) for name, keenness in middle.items()]
        for name, counted in zip(middle, count(pool, settings, months, days, traffic, sum(ours)), strict=True):
            (low if sum(counted) <= sum(ours) else high)[name] = middle[name]
    settings = [Setting(name, BY_NAME[name].setting(low[name])) for name in names]
    counts = count(pool, settings, months, days, traffic)
    return {setting.name: Judged(setting, counted, days) for setting, counted in zip(settings, counts, strict=True)}


def count(
    pool: Pool,
    settings: Sequence[Setting],
    months: Sequence[int],
    days: int,
    traffic: Traffic,
    most: float | None = None,
) -> list[list[int]]:
    """False alarms of each setting by month, given as seeds.

    Of one that has raised more than ``most``, those of the months until then.
    """
    found: list[list[int]] = [[] for _ in settings]
    left = list(range(len(settings)))
    for begin in range(0, len(months), BATCH):
        watch = partial(_false_alarms, [settings[i] for i in left], days, traffic)
        for counted in pool.map(watch, months[begin : begin + BATCH], chunksize=1):
            for i, raised in zip(left, counted, strict=True):
                found[i].append(raised)
        left = [i for i in left if most is None or sum(found[i]) <= most]
        if not left:
            break
    return found


def _false_alarms(settings: Sequence[Setting], days: int, traffic: Traffic, seed: int) -> list[int]:
    counted = healthy(seed, days, traffic)
    return [sum(1 for _ in alarms(setting, counted)) for setting in settings]
