"""What a diagnosis says: a code for scripts, a sentence for people, the numbers it rests on, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTICE = "notice"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Figure:
    """A number that a finding rests on."""

    name: str
    value: float
    unit: str = ""
    """Base units as in metric names (``ratio``, ``seconds``, ``tokens``, ``requests``); times are unix seconds."""


@dataclass(frozen=True)
class Finding:
    """One thing worth saying."""

    code: str
    level: Level
    text: str
    """One sentence with its numbers; a second one where something has to be added."""
    evidence: tuple[Figure, ...] = ()
    remedy: str = ""
    """What to do, in the order to try it; empty where the sentence says it."""
    cause: str = ""
    """The reason in a few words, for one line about many servers; empty where no reason is known."""


def figures(unit: str, **values: float | None) -> tuple[Figure, ...]:
    """Figures of one unit; those without a value are left out."""
    return tuple(Figure(name, value, unit) for name, value in values.items() if value is not None)


def duration(seconds: float) -> str:
    """A duration in words, as precise as anyone needs it: ``45 s``, ``12 min``, ``3.5 h``, ``4 days``."""
    for limit, unit, form in ((120.0, 1.0, "{:.0f} s"), (7200.0, 60.0, "{:.0f} min"), (172800.0, 3600.0, "{:.1f} h")):
        if seconds < limit:
            return form.format(seconds / unit)
    return f"{seconds / 86400:.0f} days"
