"""A calibration's conclusions in sentences, and its latencies, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Sequence

from specwatch.measure.calibration.result import Result


def crossings(result: Result) -> list[str]:
    """Up to where speculation pays, a sentence a domain."""
    largest = result.design.ladder[-1]
    lines = []
    for domain in result.design.domains:
        ks: dict[str, list[str]] = {}
        for each in result.crossovers:
            if each.domain == domain.name:
                ks.setdefault(_where(each.concurrency, largest), []).append(f"K {each.k}")
        parts = [f"with {' and '.join(names)} {where}" if len(ks) > 1 else where for where, names in ks.items()]
        lines.append(f"{domain.name}: {'; '.join(parts)}.")
    return lines


def _where(concurrency: int | None, largest: int) -> str:
    if concurrency is None:
        return f"faster up to {largest} requests at a time, the most that was measured"
    if concurrency == 1:
        return "slower than no speculation at every load"
    return f"slower than no speculation from {concurrency} requests at a time on"


def costs(result: Result) -> list[str]:
    """What drafting and verifying cost."""
    if not result.step_costs:
        return []
    first, last = result.step_costs[0], result.step_costs[-1]
    text = f"At {_load(first.concurrency)} a draft token costs {first.draft:.1%} of a plain step"
    text += f" and verifying {first.verify:.2f} plain steps"
    if last != first:
        text += f"; at {_load(last.concurrency)} {last.draft:.1%} and {last.verify:.2f}"
    assumed = ", verifying taken as free for one request since only one K was measured"
    return [f"{text}{assumed if len(result.design.ks) == 1 else ''}."]


def _load(concurrency: int) -> str:
    return "one request at a time" if concurrency == 1 else f"{concurrency} requests at a time"


def recommendation(result: Result) -> str:
    """What to launch with."""
    if result.advice is None:
        return "Nothing is recommended: too few tokens."
    if result.advice.num_speculative_tokens == 0:
        return "Recommended for this traffic: no speculation."
    return f"Recommended for this traffic: {_schedule(result.advice.schedule)}."


def _schedule(schedule: Sequence[tuple[int, int, int]]) -> str:
    words = []
    for place, (first, last, k) in enumerate(schedule):
        sizes = f"batch sizes {first} to {last}" if first < last else f"batch size {first}"
        if place + 1 == len(schedule):
            sizes = f"batch sizes from {first} on" if place else "all batch sizes"
        words.append(f"K {k} at {sizes}" if k else f"no drafting at {sizes}")
    return ", ".join(words)


def milliseconds(seconds: float | None) -> str:
    """A latency without its unit, in three digits, as people compare them; empty where it is not known."""
    return "" if seconds is None else f"{1000 * seconds:.3g}"
