"""Silences: alerts that somebody knows of, and wants no message about for a while.

A silenced alert goes on being judged and is told as silenced; it only sends nothing. When its silence ends, by time or
by hand, and it still fires, its message goes out then. Alertmanager's silences do the same for a fleet on Prometheus.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

MOST_SILENCES = 200
"""At a time. With patterns ten are many, and each is held against every alert that is looked at."""

LONGEST_SILENCE = 30 * 86_400.0
"""Seconds. What nobody wants to hear of for longer than a month is a matter of configuration."""

PATTERN_LENGTH = 300
"""Characters of a pattern; names are as long as DNS allows, 253."""

BY_LENGTH = 100
COMMENT_LENGTH = 500

ANY = "*"


@dataclass(frozen=True)
class Silence:
    """Alerts of which nothing is sent; in each of the three patterns ``*`` stands for any characters.

    Times are Unix seconds.
    """

    id: str
    alert: str
    target: str
    model: str
    ends_at: float
    by: str
    comment: str

    def matches(self, alert: str, target: str, model: str) -> bool:
        """Whether this alert on this target is meant."""
        pairs = ((self.alert, alert), (self.target, target), (self.model, model))
        return all(matches(pattern, name) for pattern, name in pairs)


class TooManySilences(Exception):
    """MOST_SILENCES are in force."""


class Silences:
    """Those in force. No clock is read: time arrives with every call."""

    def __init__(self, silences: Iterable[Silence] = ()) -> None:
        self._by_id = {silence.id: silence for silence in silences}

    def add(self, silence: Silence, at: float) -> None:
        """Put one in force; TooManySilences where there is no room."""
        if len(self.in_force(at)) >= MOST_SILENCES:
            raise TooManySilences
        self._by_id[silence.id] = silence

    def end(self, silence_id: str, at: float) -> bool:
        """End one by hand; False where none of that id is in force."""
        self._drop_ended(at)
        return self._by_id.pop(silence_id, None) is not None

    def in_force(self, at: float) -> list[Silence]:
        """All of them, those that end first in front."""
        self._drop_ended(at)
        return sorted(self._by_id.values(), key=lambda silence: silence.ends_at)

    def of(self, alert: str, target: str, model: str, at: float) -> Silence | None:
        """The one that keeps this alert silent for the longest, if any does."""
        fitting = [silence for silence in self.in_force(at) if silence.matches(alert, target, model)]
        return fitting[-1] if fitting else None

    def _drop_ended(self, at: float) -> None:
        self._by_id = {name: silence for name, silence in self._by_id.items() if silence.ends_at > at}


def new_id() -> str:
    """A name for a silence that no other has."""
    return secrets.token_hex(8)


def matches(pattern: str, name: str) -> bool:
    """Whether the name fits, ``*`` standing for any characters and everything else for itself.

    Brackets are no sets here, for they stand in addresses: ``[::1]:8000``. Time grows with the length alone.
    """
    first, *rest = pattern.split(ANY)
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    begin, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, begin, end)
        if found < 0:
            return False
        begin = found + len(part)
    return True
