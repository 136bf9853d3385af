"""What a past costs on disk: bytes a target, seconds a write, bytes that a write sends to the disk, seconds an answer.

    python -m benchmarks.history                 # forty seconds of one core; --quick for a smoke test

An hour of a simulated server (K = 5, eight requests at a time), as the sidecar's own ``TargetWatch`` tells it, is
played again and again to a database in a real file: first few targets for so many days that everything that ages out
has, then a fleet for ten minutes. Seconds are processor time, which a slow disk does not change.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.signals_cost import SCRAPE_SECONDS, pages
from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.collect.targets import Target
from specwatch.sidecar.history import MOST_BYTES, SAVE_SECONDS, tell_points
from specwatch.sidecar.store import history, schema
from specwatch.sidecar.store.database import PRAGMAS
from specwatch.sidecar.views import Stretch
from specwatch.sidecar.watch import TargetWatch

START = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0

QUESTIONS = ((HOUR, 15.0), (DAY, 360.0), (7 * DAY, 2520.0), (35 * DAY, 12_600.0), (3 * HOUR, 5.0))
"""Ranges that a page asks for, and their steps: 240 points each, and the finest there is."""


@dataclass(frozen=True)
class Kept:
    """What one level of the history takes."""

    table: str
    rows: float
    """A target."""
    bytes: float
    """A target, pages that are not full included."""


@dataclass(frozen=True)
class Written:
    """What one save costs on average."""

    targets: int
    seconds: float
    bytes: float
    """Handed to the operating system, write-ahead log and checkpoints included."""


def an_hour(scrapes: int) -> list[Stretch]:
    """Stretches of one simulated server, times counted from its first scrape."""
    watch = TargetWatch(Target("a", "http://a"))
    shown = pages(scrapes + 1, engines=1)
    for page in shown:
        watch.observe(page.at, page.snapshot)
    return [replace(stretch, at=stretch.at - shown[0].at) for stretch in watch.stretches]


def opened(path: Path) -> sqlite3.Connection:
    """A database as the sidecar makes it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    schema.bring_up_to_date(connection)
    return connection


def fill(connection: sqlite3.Connection, hour: Sequence[Stretch], targets: int, seconds: float) -> Written:
    """Save as the sidecar does, every ten seconds, for so long; scrapes are spread over their interval."""
    saves, busy, wrote = 0, 0.0, _bytes_written()
    for now, portion in _portions(hour, seconds):
        new = [
            (f"gpu-{i}", replace(stretch, at=stretch.at + SCRAPE_SECONDS * i / targets))
            for stretch in portion
            for i in range(targets)
        ]
        began = time.process_time()
        connection.execute("BEGIN IMMEDIATE")
        history.save(connection, new, now + SCRAPE_SECONDS, MOST_BYTES)
        connection.execute("COMMIT")
        busy += time.process_time() - began
        saves += 1
    return Written(targets, busy / saves, (_bytes_written() - wrote) / saves)


def _portions(hour: Sequence[Stretch], seconds: float) -> Iterator[tuple[float, list[Stretch]]]:
    scrapes = round(SAVE_SECONDS / SCRAPE_SECONDS)
    for first in range(0, round(seconds / SCRAPE_SECONDS), scrapes):
        numbers = range(first, first + scrapes)
        portion = [replace(hour[n % len(hour)], at=START + SCRAPE_SECONDS * (n + 1)) for n in numbers]
        yield portion[-1].at, portion


def kept(connection: sqlite3.Connection, targets: int) -> list[Kept]:
    """What every level takes now."""
    sizes = dict(connection.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name"))
    rows = {
        level.table: connection.execute(history._sql("SELECT COUNT(*) FROM <table>", level)).fetchone()[0]
        for level in history.LEVELS
    }
    return [Kept(level.table, rows[level.table] / targets, sizes[level.table] / targets) for level in history.LEVELS]


def answering(connection: sqlite3.Connection, seconds: float, step: float, now: float) -> tuple[int, float, float]:
    """Points of an answer, and seconds to read the rows and to work out the points: the quickest of five."""
    window = max(step, RATE_WINDOW)
    read = partial(history.load, connection, "gpu-0", now - seconds - window, now, step)
    points = partial(tell_points, read() or [], now - seconds, step, window)
    return len(points()), _quickest(read), _quickest(points)


def _quickest(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def _bytes_written() -> int:
    """What this process has handed to write(2) so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def report(folder: Path, targets: int, days: float, fleet: int, minutes: float) -> str:
    """All figures as text."""
    hour = an_hour(round(min(days * DAY, HOUR) / SCRAPE_SECONDS))
    small, large = opened(folder / "small.db"), opened(folder / "large.db")
    small.execute("PRAGMA synchronous = OFF")  # three hundred thousand waits for a disk tell nothing about bytes
    fill(small, hour, targets, days * DAY)
    levels = kept(small, targets)
    answers = [(seconds, step, *answering(small, seconds, step, START + days * DAY)) for seconds, step in QUESTIONS]
    written = fill(large, hour, fleet, minutes * 60)
    small.close()
    large.close()
    return "\n".join(
        [
            f"{targets} targets scraped every {SCRAPE_SECONDS:g} s for {days:g} days",
            *map(_level_line, levels, (SCRAPE_SECONDS, *(level.bucket for level in history.LEVELS[1:]))),
            f"  together {sum(level.bytes for level in levels) / 1e6:.2f} MB a target",
            *(
                f"  {seconds / HOUR:3.0f} h by {step:5.0f} s: {points:4d} points, read in {1000 * read:5.1f} ms, "
                f"worked out in {1000 * work:5.1f} ms"
                for seconds, step, points, read, work in answers
            ),
            f"{fleet} targets for {minutes:g} minutes",
            f"  a save every {SAVE_SECONDS:g} s: {1000 * written.seconds:.0f} ms of processor time, "
            f"{written.bytes / 1000:.0f} kB written, {written.bytes / SAVE_SECONDS * DAY / 1e9:.1f} GB a day",
        ]
    )


def _level_line(level: Kept, spacing: float) -> str:
    a_row = level.bytes / level.rows
    return (
        f"  {level.table:<19} {level.rows:6.0f} rows and {level.bytes / 1000:6.1f} kB a target; "
        f"{a_row:4.0f} bytes a row, {a_row * DAY / spacing / 1000:6.1f} kB a target and day"
    )


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes, of which no figure counts")
    size = (2, 0.1, 20, 2.0) if parser.parse_args().quick else (1, 36.0, 1000, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        print(report(Path(folder), *size))


if __name__ == "__main__":
    main()
