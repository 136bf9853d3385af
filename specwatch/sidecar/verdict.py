"""How a server stands, in one word, and which server comes first: what the page, the terminal and scripts agree on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from specwatch.sidecar.views import TargetView, known_speedup, number
from specwatch.signals.findings import Level
from specwatch.signals.speedup import SpeedupKind


class Verdict(str, Enum):
    """How a server stands over its headline window, the worst first."""

    COSTS = "costs"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    NO_NEWS = "no-news"
    NOT_DRAFTING = "not-drafting"
    DRIFTED = "drifted"
    NO_SPECULATION = "no-speculation"
    PAYS = "pays"
    PLAIN_TWIN = "plain-twin"
    NO_ESTIMATE = "no-estimate"
    NO_TRAFFIC = "no-traffic"
    WAITING = "waiting"


class Tone(str, Enum):
    """Whether somebody must look."""

    BAD = "bad"
    WARN = "warn"
    GOOD = "good"
    QUIET = "quiet"
    """Nothing can be said of it, and nothing is wrong."""


@dataclass(frozen=True)
class Words:
    """How a verdict is told."""

    word: str
    """Of one server, as a label."""
    tone: Tone
    one: str
    """As a sentence counts one of them: ``1 pays``."""
    several: str
    named: bool = False
    """Whether the sentence names these servers."""
    is_verb: bool = False
    """Whether it is what servers do (``pays``), not what they are (``unreachable``)."""


WORDS: Mapping[Verdict, Words] = {
    Verdict.COSTS: Words("costs", Tone.BAD, "costs", "cost", named=True, is_verb=True),
    Verdict.UNREACHABLE: Words("unreachable", Tone.BAD, "unreachable", "unreachable", named=True),
    Verdict.UNREADABLE: Words("unreadable", Tone.BAD, "unreadable", "unreadable", named=True),
    Verdict.NO_NEWS: Words("no news", Tone.WARN, "without news", "without news", named=True),
    Verdict.NOT_DRAFTING: Words("not drafting", Tone.WARN, "not drafting", "not drafting", named=True),
    Verdict.DRIFTED: Words("pays, drifted", Tone.WARN, "pays but drifted", "pay but drifted", named=True, is_verb=True),
    Verdict.NO_SPECULATION: Words(
        "no speculation", Tone.WARN, "without speculation", "without speculation", named=True
    ),
    Verdict.PAYS: Words("pays", Tone.GOOD, "pays", "pay", is_verb=True),
    Verdict.PLAIN_TWIN: Words("plain twin", Tone.QUIET, "plain twin", "plain twins"),
    Verdict.NO_ESTIMATE: Words("no estimate", Tone.QUIET, "without an estimate", "without an estimate"),
    Verdict.NO_TRAFFIC: Words("no traffic", Tone.QUIET, "without traffic", "without traffic"),
    Verdict.WAITING: Words("waiting", Tone.QUIET, "not scraped yet", "not scraped yet"),
}

_BY_FINDING: Mapping[str, Verdict] = {
    "no-news": Verdict.NO_NEWS,
    "not-drafting": Verdict.NOT_DRAFTING,
    "no-speculation": Verdict.NO_SPECULATION,
    "plain-twin": Verdict.PLAIN_TWIN,
    "no-traffic": Verdict.NO_TRAFFIC,
}
"""Findings that settle the verdict whatever the figures are."""

_RANK = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Judged:
    """A server and how it stands."""

    view: TargetView
    verdict: Verdict

    @property
    def words(self) -> Words:
        """How the verdict is told."""
        return WORDS[self.verdict]


def speedup_of(view: TargetView) -> tuple[float | None, SpeedupKind]:
    """The speedup over the headline window as well as it is known, and how; an estimate is an upper bound."""
    known = known_speedup(view.speedups)
    if known is not None:
        return known, view.speedups[0].kind
    return number(view.headline.values, "estimated_speedup"), SpeedupKind.ESTIMATED


def has_problem(view: TargetView) -> bool:
    """Whether its diagnosis found something wrong."""
    return any(finding.level is Level.PROBLEM for finding in view.findings)


def verdict_of(view: TargetView) -> Verdict:
    """How a server stands over its headline window."""
    if view.up is False:
        return Verdict.UNREACHABLE
    settled = next((finding.code for finding in view.findings if finding.code in _BY_FINDING), None)
    if settled:
        return _BY_FINDING[settled]
    if view.up is None:
        return Verdict.WAITING
    speedup, _ = speedup_of(view)
    if speedup is None:
        return Verdict.UNREADABLE if has_problem(view) else Verdict.NO_ESTIMATE
    if speedup < 1:
        return Verdict.COSTS
    if view.drift.alarmed:
        return Verdict.DRIFTED
    # What the few steps gain that a schedule leaves is not what the server gains.
    off = any(finding.code == "off-by-schedule" for finding in view.findings)
    return Verdict.NO_ESTIMATE if off else Verdict.PAYS


def ranked(views: Iterable[TargetView]) -> list[Judged]:
    """Servers with their verdicts, the worst first."""
    return sorted((Judged(view, verdict_of(view)) for view in views), key=_weight)


def _weight(judged: Judged) -> tuple[int, bool, int, tuple[tuple[str, int, str], ...]]:
    """What decides the order.

    Speedups are compared in steps of a tenth, and only where something is wrong: lines that trade places at every
    scrape cannot be read.
    """
    view, (speedup, _) = judged.view, speedup_of(judged.view)
    step = round(speedup * 10) if has_problem(view) and speedup is not None else 0
    return _RANK[judged.verdict], not has_problem(view), step, by_name(view.target.name)


def by_name(name: str) -> tuple[tuple[str, int, str], ...]:
    """What sorts names as people do: ``gpu-2`` before ``gpu-10``."""
    parts = re.findall(r"(\D*)(\d{0,18})", name)
    return tuple((text.casefold(), int(digits or 0), digits) for text, digits in parts)
