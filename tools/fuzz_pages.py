"""Whether any page makes the sidecar crash, hang, or say a number that the page does not hold.

    python -m tools.fuzz_pages --cases 100000

Pages that real servers of five releases served are changed at random: bytes flipped, lines missing, doubled and out of
order, values that are huge, negative or no numbers, labels that are hostile. Each is read by the sidecar and by
``page_oracle``, and what the sidecar takes in, a watch judges: its signals must be numbers, and shares must be shares.
The same seed tries the same pages.
"""

from __future__ import annotations

import argparse
import math
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType

from specwatch.collect.targets import Target
from specwatch.sidecar.watch import TargetWatch
from specwatch.vllm.metrics import PageError, Snapshot
from specwatch.vllm.requests_seen import REQUEST_SERIES
from tools.page_mutations import mutated
from tools.page_oracle import WANTED, contradictions, has_reason_to_be_refused

PAGES = Path(__file__).parent.parent / "tests" / "fixtures"

SHARES = ("acceptance_rate", "position_acceptance", "delivered_acceptance_rate", "truncated_share")
"""Signals that are shares of something: from 0 to 1. Coverage is none, for dummy drafts take it above."""

A_SERVERS_LIFE = 20
"""Pages that one watch takes in before the next one."""

CPU_SECONDS = 30
"""Of this process, on one page: more is a hang. A page of a hundred kilobytes takes some milliseconds."""

OTHER_LINES = 12
"""Every one of so many lines that nobody reads is kept: they are most of a page and all alike."""


class Hang(Exception):
    """A page took too long."""


@dataclass
class Report:
    """What came of the pages."""

    cases: int = 0
    refused: int = 0
    without_change: int = 0
    """Taken, and the same numbers as on the page before the change."""
    wrong: list[str] = field(default_factory=list)
    """What must not be, a line a page."""
    crashes: Counter[str] = field(default_factory=Counter)

    @property
    def taken(self) -> int:
        """Pages that were read."""
        return self.cases - self.refused - sum(self.crashes.values())

    def __str__(self) -> str:
        return (
            f"{self.cases} pages: {self.taken} read, {self.refused} refused, {sum(self.crashes.values())} crashes, "
            f"{len(self.wrong)} wrong"
        )


@cache
def pages() -> tuple[bytes, ...]:
    """Captured pages, without most of what nobody reads."""
    found = sorted(PAGES.glob("vllm-*.txt"))
    if not found:
        sys.exit(f"{PAGES}: no captured pages; run this from a checkout")
    return tuple(_shortened(path.read_text()).encode() for path in found)


def _shortened(page: str) -> str:
    lines = page.splitlines(keepends=True)
    names = [line.partition("{")[0].partition(" ")[0] for line in lines]
    counts = [name in WANTED or name in REQUEST_SERIES for name in names]
    return "".join(line for at, line in enumerate(lines) if counts[at] or at % OTHER_LINES == 0)


def fuzz(cases: int, seed: int) -> Report:
    """Try so many pages."""
    source, report = random.Random(seed), Report()  # noqa: S311 (not a secret)
    while report.cases < cases:
        page = source.choice(pages())
        watch, at = TargetWatch(Target("fuzzed", "http://127.0.0.1:1/metrics")), 0.0
        for _ in range(min(A_SERVERS_LIFE, cases - report.cases)):
            at += source.choice((0.0, 1.0, 5.0, 15.0, 400.0))
            _try(mutated(page, source), watch, at, report)
    return report


def _try(page: bytes, watch: TargetWatch, at: float, report: Report) -> None:
    report.cases += 1
    try:
        problems = problems_with(page, watch, at)
    except PageError:
        report.refused += 1
        return
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        report.crashes[f"{type(problem).__name__} at {place.filename}:{place.lineno}"] += 1
        return
    report.wrong += [f"{problem}: {page[:200]!r}" for problem in problems]


def problems_with(page: bytes, watch: TargetWatch, at: float) -> list[str]:
    """What is wrong with what is said of a page; PageError where it is refused, for a reason."""
    try:
        text = page.decode()
    except UnicodeDecodeError as problem:
        raise PageError("the page is not text") from problem
    try:
        with _limited():
            told = watch.reader.read(text)
    except PageError:
        if has_reason_to_be_refused(text):
            raise
        return ["refused without a reason"]
    with _limited():
        watch.observe(at, told)
        out_of_range = list(_out_of_range(watch, at))
    return [*_misread(text, told), *out_of_range]


def _misread(text: str, told: Snapshot) -> list[str]:
    try:
        return contradictions(text, told)
    except ValueError as problem:
        return [f"read, though {problem} is not in the format"]


def _out_of_range(watch: TargetWatch, at: float) -> Iterator[str]:
    windows = [(label, window.values) for label, window in watch.view(at).windows.items()]
    for label, values in [*windows, ("judged", watch.judged_values(at))]:
        for name, value in values.items():
            for number in value if isinstance(value, tuple) else (value,):
                if number is not None and not math.isfinite(number):
                    yield f"{name} over {label} is {number}"
                elif number is not None and name in SHARES and not 0.0 <= number <= 1.0:
                    yield f"{name} over {label} is {number}, which is no share"


@contextmanager
def _limited() -> Iterator[None]:
    """At most CPU_SECONDS of this process, whatever else the machine does."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {CPU_SECONDS} s")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    began = time.monotonic()
    report = fuzz(options.cases, options.seed)
    print(f"{report}, in {time.monotonic() - began:.0f} s (seed {options.seed})")
    for line, count in report.crashes.most_common(20):
        print(f"crash, {count} times: {line}")
    for line in report.wrong[:20]:
        print(f"wrong: {line}")
    return int(bool(report.crashes or report.wrong))


if __name__ == "__main__":
    sys.exit(main())
