"""vLLM releases in their order, and facts that hold from one of them up to another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from specwatch.errors import InputError

_VERSION = re.compile(
    r"v?(?P<numbers>\d+(\.\d+){1,3})"
    r"([-_.]?(?P<stage>a|b|rc)\.?(?P<stage_number>\d+))?"
    r"([-_.]?post(?P<post>\d+))?"
    r"([-_.]?dev(?P<dev>\d+))?"
    r"(\+(?P<local>[\w.]+))?",
    re.IGNORECASE,
)
_STAGES = {"a": -3, "b": -2, "rc": -1}
_DEVELOPMENT = -4
_FINAL = 0
_NO_DEV = 1 << 62


@dataclass(frozen=True, order=True)
class Release:
    """One version of vLLM, ordered as PEP 440 orders versions; the part after ``+`` counts for nothing."""

    numbers: tuple[int, ...]
    """Four numbers: 0.10.1.1 is a release of its own, 0.9 is (0, 9, 0, 0)."""
    rank: tuple[int, int, int, int] = (_FINAL, 0, -1, _NO_DEV)
    """Stage (alpha to final) and its number, post-release, development build."""
    text: str = field(default="", compare=False)
    """As it was written, without the part after ``+``."""

    @classmethod
    def parse(cls, text: str) -> Release:
        """Read a version such as 0.32.0, 0.8.5.post2, 0.10.1.1, 0.33.0rc1 or 0.32.0+cpu; else InputError."""
        found = _VERSION.fullmatch(text.strip())
        if found is None:
            raise InputError(f"{text!r} is no vLLM version; write it like 0.32.0 or 0.8.5.post1")
        numbers = [int(number) for number in found["numbers"].split(".")]
        numbers += [0] * (4 - len(numbers))
        stage = _STAGES[found["stage"].lower()] if found["stage"] else _FINAL
        if found["dev"] and stage == _FINAL and not found["post"]:
            stage = _DEVELOPMENT
        rank = (
            stage,
            int(found["stage_number"] or 0),
            int(found["post"] or -1),
            int(found["dev"]) if found["dev"] else _NO_DEV,
        )
        return cls(tuple(numbers), rank, text.strip().partition("+")[0].removeprefix("v"))

    @property
    def unfinished(self) -> bool:
        """Whether this is a pre-release or a build between releases."""
        return self.rank[0] < _FINAL or self.rank[3] != _NO_DEV

    @property
    def finished(self) -> str:
        """The numbers alone, as of the release that a pre-release or a build becomes."""
        shown = self.numbers if self.numbers[3] else self.numbers[:3]
        return ".".join(map(str, shown))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Fact:
    """Something that vLLM has from one release on, up to but not including another.

    Post-releases, pre-releases and development builds are judged as the release whose numbers they carry.
    """

    name: str
    since: Release
    until: Release | None = None
    """The first release without it; None where the newest release that specwatch knows still has it."""
    reason: str = ""
    """Why it ended or what came in its place; for what lasts, what it is or needs."""

    def holds(self, release: Release) -> bool:
        """Whether the release has it."""
        started = self.since.numbers <= release.numbers
        return started and (self.until is None or release.numbers < self.until.numbers)


def fact(name: str, since: str, until: str = "", reason: str = "") -> Fact:
    """Shorthand for tables: ``fact("suffix", "0.11.1")``; an empty ``until`` means that it lasts."""
    return Fact(name, Release.parse(since), Release.parse(until) if until else None, reason)


def holding(facts: Iterable[Fact], name: str, release: Release) -> Fact | None:
    """The fact of that name that holds on the release, or None."""
    return next((fact for fact in facts if fact.name == name and fact.holds(release)), None)


def ended(facts: Iterable[Fact], name: str, release: Release) -> Fact | None:
    """The last fact of that name that stopped holding on or before the release, or None."""
    past = [f for f in facts if f.name == name and f.until and f.until.numbers <= release.numbers]
    return max(past, key=lambda fact: fact.since) if past else None


def coming(facts: Iterable[Fact], name: str, release: Release) -> Fact | None:
    """The first fact of that name that starts to hold after the release, or None."""
    future = [fact for fact in facts if fact.name == name and fact.since.numbers > release.numbers]
    return min(future, key=lambda fact: fact.since) if future else None


def names(facts: Iterable[Fact], release: Release) -> list[str]:
    """Names of the facts that hold on the release, each once, in the table's order."""
    return list(dict.fromkeys(fact.name for fact in facts if fact.holds(release)))
