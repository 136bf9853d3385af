"""The benchmark of scraping in words, as tables, and as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

INTERVAL = 5.0
"""Seconds between two scrapes of a server."""

PAGE = Path("docs/targets.md")
PICTURE = Path("docs/images/scrape-growth.png")

OURS, PROMETHEUS = "specwatch", "Prometheus"


@dataclass(frozen=True)
class Cost:
    """Of one reader."""

    name: str
    rate: float
    """Scrapes a second."""
    cores: float
    """Processor time a second."""
    peak_megabytes: float

    @property
    def milliseconds(self) -> float:
        """Processor time of a scrape."""
        return 1000 * self.cores / self.rate if self.rate else 0.0


@dataclass(frozen=True)
class Lags:
    """By how many seconds scrapes began late."""

    seen: int
    half: float = 0.0
    """Half of them by no more."""
    nearly_all: float = 0.0
    """The same of 99 in 100."""
    most: float = 0.0

    @classmethod
    def of(cls, lags: Sequence[float]) -> Lags:
        """Of these scrapes."""
        seen = sorted(lags)
        return cls(len(seen), *(seen[min(int(share * len(seen)), len(seen) - 1)] for share in (0.5, 0.99, 1.0) if seen))


@dataclass(frozen=True)
class Result:
    """Of one run."""

    servers: int
    seconds: float
    scrapes: int
    failures: int
    missed: int
    lags: Lags
    costs: Sequence[Cost]

    @property
    def due(self) -> float:
        """Scrapes that were due."""
        return self.servers * self.seconds / INTERVAL

    def cost(self, name: str) -> Cost | None:
        """Of a reader, where it took part."""
        return next((cost for cost in self.costs if cost.name == name), None)


def report(result: Result) -> str:
    """In words."""
    lags = result.lags
    lines = [
        f"{result.servers} servers for {result.seconds:.0f} s: {result.scrapes} scrapes of {result.due:.0f} due, "
        f"{result.failures} failed, {result.missed} turns missed;",
        f"  late by {1000 * lags.half:.0f} ms (half), {1000 * lags.nearly_all:.0f} ms (99 %), "
        f"{1000 * lags.most:.0f} ms (most) of {lags.seen} seen",
    ]
    return "\n".join([*lines, *map(_one_cost, result.costs)])


def _one_cost(cost: Cost) -> str:
    return (
        f"  {cost.name:<11} {cost.milliseconds:6.2f} ms of processor a scrape, {cost.cores:6.1%} of a core, "
        f"{cost.peak_megabytes:6.0f} MB at most, {cost.rate:.1f} scrapes a second"
    )


HEAD = (
    *("servers", "seconds", "scrapes", "failed", "turns missed", "99 % began within", "the last within"),
    *("processor time of a scrape", "Prometheus'", "memory", "Prometheus'"),
)


def table(results: Sequence[Result]) -> str:
    """As Markdown."""
    rows = [HEAD, ["---"] * len(HEAD), *map(_row, results)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(result: Result) -> Sequence[str]:
    costs = [result.cost(name) for name in (OURS, PROMETHEUS)]
    return (
        f"{result.servers:,}",
        f"{result.seconds:.0f}",
        f"{result.scrapes:,}",
        f"{result.failures:,}",
        f"{result.missed:,}",
        f"{1000 * result.lags.nearly_all:.0f} ms",
        f"{1000 * result.lags.most:.0f} ms",
        *(f"{cost.milliseconds:.2f} ms" if cost else "" for cost in costs),
        *(f"{cost.peak_megabytes:.0f} MB" if cost else "" for cost in costs),
    )


def write(part: str, text: str, page: Path) -> None:
    """Put a part's table between its two marks of the page."""
    begin, end = f"<!-- python -m benchmarks.scrape --only {part} --write -->", "<!-- end -->"
    before, rest = page.read_text().split(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def draw(results: Sequence[Result], path: Path) -> None:
    """How processor time, memory and lag grow with the servers."""
    figure, (time, memory, late) = plt.subplots(1, 3, figsize=(12, 3.8))
    for name in (OURS, PROMETHEUS):
        known = [(result.servers, cost) for result in results if (cost := result.cost(name))]
        counts = [servers for servers, _ in known]
        for axes, values in (
            (time, [cost.milliseconds for _, cost in known]),
            (memory, [cost.peak_megabytes for _, cost in known]),
        ):
            axes.plot(counts, values, marker="o", linewidth=2.5 if name == OURS else 1.5, label=name)
    counts = [result.servers for result in results]
    late.plot(counts, [1000 * result.lags.nearly_all for result in results], marker="o", label="99 of 100 scrapes")
    late.plot(counts, [1000 * result.lags.most for result in results], marker=".", linestyle=":", label="the latest")
    time.set(ylabel="processor time of a scrape, ms", yscale="log")
    memory.set(ylabel="most memory, MB", yscale="log")
    late.set(ylabel="began late by, ms", yscale="log")
    for axes in (time, memory, late):
        axes.set(xscale="log", xlabel="servers")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
