"""What preflight has to say: findings as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How much a finding weighs."""

    REFUSAL = "refusal"
    """Nothing is started."""
    WARNING = "warning"
    """It starts, and is likely to be worth less than hoped."""
    NOTE = "note"
    """Good to know, or what could not be looked at."""


@dataclass(frozen=True)
class Finding:
    """One thing that preflight found."""

    code: str
    """A short name that stays the same, for programs."""
    severity: Severity
    text: str
    """What is the matter, complete without the remedy."""
    remedy: str = ""
    """What to do about it, one or two sentences; "" where there is nothing to do."""
    forcible: bool = False
    """Whether ``--force`` goes on past this refusal: vLLM would start all the same, to no good."""

    def __str__(self) -> str:
        return f"{self.text} {self.remedy}".strip()

    @property
    def refuses(self) -> bool:
        """Whether nothing may be started."""
        return self.severity is Severity.REFUSAL


def refusal(code: str, text: str, remedy: str = "", forcible: bool = False) -> Finding:
    """A reason not to start. Without ``forcible``, vLLM would refuse or fail as well, only later."""
    return Finding(code, Severity.REFUSAL, text, remedy, forcible)


def warning(code: str, text: str, remedy: str = "") -> Finding:
    """Something that will probably disappoint."""
    return Finding(code, Severity.WARNING, text, remedy)


def note(code: str, text: str, remedy: str = "") -> Finding:
    """Something to know."""
    return Finding(code, Severity.NOTE, text, remedy)
