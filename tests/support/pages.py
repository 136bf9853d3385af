"""Captured pages, read."""

from __future__ import annotations

from pathlib import Path

from specwatch.signals.window import Increments, Ledger
from specwatch.vllm.metrics import Snapshot, read_page

FIXTURES = Path(__file__).parent.parent / "fixtures"


def page_text(name: str) -> str:
    """The text of a captured page, named without its ending."""
    return (FIXTURES / f"{name}.txt").read_text()


def page(name: str) -> Snapshot:
    """A captured page, read."""
    return read_page(page_text(name))


def between(first: str, second: str, seconds: float = 30.0) -> Increments:
    """Increments of engine 0 between two captured pages of one run."""
    ledger = Ledger(keep_seconds=3600)
    for at, name in ((0.0, first), (seconds, second)):
        snapshot = page(name)
        ledger.observe(at, snapshot.engines["0"], snapshot.process_start)
    increments = ledger.over(seconds, now=seconds)
    assert increments is not None
    return increments
