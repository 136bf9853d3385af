"""What one server costs a sidecar: seconds of one update of all signals and detectors, and bytes that are remembered.

    python -m benchmarks.signals_cost            # about a minute on one core; --quick for a smoke test

A simulated server (K = 5) is watched by the sidecar's own ``TargetWatch`` for seven simulated hours, so that its
longest window is full. An update is what happens between a page that was read and alerts that can be judged: windows,
spread, drift, workload, every signal of the headline window, speedup of every kind. Reading the page, and the whole
view with its four windows, which is made when somebody asks, are timed apart. Processor time of the quickest of several
passes: other load on the machine is not ours.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specwatch.collect.targets import Target
from specwatch.lab.scenario import HOME
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.watch import TargetWatch
from specwatch.vllm.metrics import Snapshot, read_page

SCRAPE_SECONDS = 5.0
AIM, LIMIT = 0.3e-3, 1e-3
"""Seconds an update may take. A thousand servers scraped every five seconds leave 5 ms of one core to each, most of it
for fetching and reading the page."""

PASSES = 5


@dataclass(frozen=True)
class Page:
    """What a server served, and when."""

    at: float
    text: str
    snapshot: Snapshot


def pages(scrapes: int, engines: int) -> list[Page]:
    """Pages of one simulated server, one a scrape."""
    server = SimulatedServer("a", k=5, engines=engines, traffic=HOME, running=8 * engines, seed=1)
    found = []
    for _ in range(scrapes):
        server.advance(SCRAPE_SECONDS)
        text = server.page()
        found.append(Page(server.now, text, read_page(text)))
    return found


class Replay:
    """A watch that is shown the same pages again and again, as by a server that restarts before each first one."""

    def __init__(self, shown: Sequence[Page]) -> None:
        self._shown = shown
        self._span = len(shown) * SCRAPE_SECONDS
        self._rounds = 0
        self.watch = TargetWatch(Target("a", "http://a"))
        self.now = 0.0

    def play(self) -> None:
        """All pages once: each taken in, and what alerts judge told after it."""
        for page in self._shown:
            self.now = page.at + self._rounds * self._span
            self.watch.observe(self.now, page.snapshot)
            self.watch.judged_values(self.now)
        self._rounds += 1


def quickest(work: Callable[[], object], repeats: int) -> float:
    """Processor seconds of one of the ``repeats`` that ``work`` makes, in the quickest pass."""
    best = float("inf")
    for _ in range(PASSES):
        began = time.process_time()
        work()
        best = min(best, (time.process_time() - began) / repeats)
    return best


def times(func: Callable[[], object], repeats: int) -> Callable[[], None]:
    """Does the same several times."""

    def work() -> None:
        for _ in range(repeats):
            func()

    return work


@dataclass(frozen=True)
class Cost:
    """Of one server."""

    update: float
    """Seconds of an update."""
    view: float
    """Seconds of a whole view."""
    page: float
    """Seconds to read a page."""
    memory: float
    """Bytes that are remembered in the end."""


def measure(scrapes: int, hours: float, engines: int) -> Cost:
    """The cost after ``hours`` were watched, of a server with that many engines; ``scrapes`` pages are repeated."""
    shown = pages(scrapes, engines)
    gc.collect()
    tracemalloc.start()
    replay = Replay(shown)
    while replay.now < hours * 3600:
        replay.play()
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return Cost(
        update=quickest(replay.play, scrapes),
        view=quickest(times(lambda: replay.watch.view(replay.now), 20), 20),
        page=quickest(times(lambda: read_page(shown[-1].text), 20), 20),
        memory=float(memory),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one engine, an hour")
    options = parser.parse_args(arguments)
    print(f"{'engines':>7} {'update':>10} {'whole view':>11} {'page read':>10} {'memory':>10}")
    for engines in (1,) if options.quick else (1, 2, 8):
        cost = measure(scrapes=120 if options.quick else 720, hours=1 if options.quick else 7, engines=engines)
        verdict = "within the aim" if cost.update < AIM else "within the limit" if cost.update < LIMIT else "too slow"
        print(
            f"{engines:7} {cost.update * 1e3:7.3f} ms {cost.view * 1e3:8.3f} ms {cost.page * 1e3:7.3f} ms "
            f"{cost.memory / 1024:7.0f} kB  {verdict}"
        )


if __name__ == "__main__":
    main()
