"""A diagnosis as a message tells it."""

from __future__ import annotations

from collections.abc import Sequence

from specwatch.alerting.notification import utc
from specwatch.signals.findings import Figure, Finding, duration

_SEVERAL = {"tokens_per_second": "tokens/s"}
_ONE = {"tokens": "token", "servers": "server", "requests": "request", **_SEVERAL}
"""Units as people write them."""


def in_words(findings: Sequence[Finding]) -> str:
    """The first finding: its sentence, what helps, and the numbers behind it; empty without findings."""
    if not findings:
        return ""
    first = findings[0]
    numbers = ", ".join(f"{figure.name.replace('_', ' ')} {in_its_unit(figure)}" for figure in first.evidence)
    return " ".join(part for part in (first.text, first.remedy, numbers and f"({numbers})") if part)


def in_its_unit(figure: Figure) -> str:
    """A number for people: moments as dates, shares in per cent, speedups as factors."""
    name, value = figure.name, figure.value
    if name.endswith("_at"):
        return utc(value)
    if "speedup" in name:
        return f"{value:.2f}×"
    if name.endswith("score"):
        return f"{value:.2f}"
    if figure.unit == "ratio":
        return f"{value:.1%}"
    if figure.unit == "seconds" and value >= 1:
        return duration(value)
    words = _ONE.get(figure.unit, figure.unit) if value == 1 else _SEVERAL.get(figure.unit, figure.unit)
    return f"{value:.3g} {words}".strip()
