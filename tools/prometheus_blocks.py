"""Hours of scrapes in Prometheus within seconds: pages with their times become the blocks of its database.

    write_blocks(promtool, folder, lines(scrapes))
    prometheus --storage.tsdb.path=folder --storage.tsdb.retention.time=100y

promtool wants OpenMetrics: every sample with its time, and ``# EOF`` behind the last.
"""

from __future__ import annotations

import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 1800
"""Seconds for promtool: a gigabyte of lines takes some minutes."""


@dataclass(frozen=True)
class Scrape:
    """A metrics page as Prometheus got it."""

    at: float
    """Unix time."""
    labels: Mapping[str, str]
    """Labels of the target, such as job and instance."""
    page: str


def lines(scrapes: Iterable[Scrape], wanted: Container[str] | None = None) -> Iterator[str]:
    """The samples of the pages, each with its labels and its time; only those of ``wanted`` names where it is given."""
    for scrape in scrapes:
        own = ",".join(f'{name}="{value}"' for name, value in scrape.labels.items())
        for line in scrape.page.split("\n"):
            if not line or line.startswith("#"):
                continue
            series, _, value = line.rpartition(" ")
            name, brace, inside = series.partition("{")
            if wanted is None or name in wanted:
                labels = f"{own},{inside}" if brace and inside != "}" else f"{own}}}"
                yield f"{name}{{{labels} {value} {scrape.at:.3f}\n"


def write_blocks(promtool: Path, folder: Path, samples: Iterable[str]) -> None:
    """Add blocks with these samples to the database in ``folder``; of each series the oldest first."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "samples.openmetrics"
    try:
        with file.open("w", encoding="utf-8") as text:
            text.writelines(samples)
            text.write("# EOF\n")
        command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(file), str(folder)]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    finally:
        file.unlink(missing_ok=True)
