"""Captured pages and what a test asks of a page's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

FIXTURES = Path(__file__).parents[1] / "fixtures"

Key = tuple[str, tuple[tuple[str, str], ...]]


def captured(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


@lru_cache(maxsize=8)
def samples(page: str) -> dict[Key, float]:
    """Every sample by name and labels; a series that is there twice fails."""
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is on the page twice"
            found[key] = sample.value
    return found


def total(page: str, name: str, **labels: str) -> float:
    """Sum of a sample name over every series that has these labels."""
    values = [
        value
        for (sample, held), value in samples(page).items()
        if sample == name and labels.items() <= dict(held).items()
    ]
    assert values, f"no {name} with {labels} on the page"
    return sum(values)


def outline(page: str) -> list[str]:
    """The page without its numbers: headers as they are, sample lines without their values."""
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in page.splitlines()]


def blocks(page: str) -> Iterator[tuple[str, ...]]:
    """The outline cut into families, for pages whose order means nothing."""
    for block in re.split(r"(?=^# HELP )", page, flags=re.MULTILINE)[1:]:
        yield tuple(outline(block))


def without(page: str, family: str) -> str:
    """The page without one family."""
    kept = [block for block in re.split(r"(?=^# HELP )", page, flags=re.MULTILINE) if f" {family} " not in block[:200]]
    return "".join(kept)
