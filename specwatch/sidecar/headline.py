"""The one sentence that says how things are.

As in "7 servers: 6 pay, 1 costs: gpu-3 (traffic changed domain, drifted since 14:02)".

The page's headline.js says the same; tests/sidecar/test_headline.py holds both together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from specwatch.alerting.text import clean
from specwatch.sidecar.verdict import WORDS, Judged, Tone, Verdict
from specwatch.sidecar.views import TargetView

MOST_NAMES = 3
"""Servers of one group that the sentence names; the table has the others."""

LONGEST_NAME = 24
"""Characters of a name in the sentence."""

Group = tuple[Verdict, list[TargetView]]


def headline(rows: Sequence[Judged], now: float) -> str:
    """The sentence about servers as ``verdict.ranked`` gives them; moments as the local time of day."""
    if not rows:
        return "No server is watched"
    if len(rows) == 1:
        return _alone(rows[0], now)
    groups = [(verdict, [row.view for row in group]) for verdict, group in groupby(rows, lambda row: row.verdict)]
    words = WORDS[groups[0][0]]
    if len(groups) == 1 and not words.named:
        return f"All {len(rows)} servers{'' if words.is_verb else ':'} {words.several}."
    # Those that need no name come first, so that the sentence ends with those that somebody must look at.
    counted = list(_unnamed(groups))
    named = [_named(verdict, views, now) for verdict, views in groups if WORDS[verdict].named]
    return f"{len(rows)} servers: {'; '.join(filter(None, [', '.join([*counted, *named[:1]]), *named[1:]]))}."


def time_of_day(at: float, now: float) -> str:
    """Local time of day, with the day where it is not today's: ``14:02``, ``3 Nov, 14:02``."""
    moment, today = (datetime.fromtimestamp(seconds).astimezone() for seconds in (at, now))
    day = "" if moment.date() == today.date() else f"{moment.day} {moment:%b}, "
    return f"{day}{moment:%H:%M}"


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters, the middle left out: both ends tell names apart."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def _unnamed(groups: Sequence[Group]) -> Iterator[str]:
    """Those that pay, and all others that need no name: in their own words where those words fit them all."""
    yield from (_count(verdict, views) for verdict, views in groups if verdict is Verdict.PAYS)
    silent = [(verdict, views) for verdict, views in groups if WORDS[verdict].tone is Tone.QUIET]
    if len(silent) > 1:
        yield f"{sum(len(views) for _, views in silent)} without figures"
    else:
        yield from (_count(verdict, views) for verdict, views in silent)


def _count(verdict: Verdict, views: Sequence[TargetView]) -> str:
    words = WORDS[verdict]
    return f"{len(views)} {words.one if len(views) == 1 else words.several}"


def _named(verdict: Verdict, views: Sequence[TargetView], now: float) -> str:
    names = ", ".join(_name(view) + _why(verdict, view, now) for view in views[:MOST_NAMES])
    rest = len(views) - MOST_NAMES
    return f"{_count(verdict, views)}: {names}" + (f" and {rest} more" if rest > 0 else "")


def _alone(row: Judged, now: float) -> str:
    words = row.words
    said = f" {words.one}" if words.is_verb else f": {words.word}"
    return f"{_name(row.view)}{said}{_why(row.verdict, row.view, now) if words.named else ''}."


def _name(view: TargetView) -> str:
    return shortened(clean(view.target.name), LONGEST_NAME)


def _why(verdict: Verdict, view: TargetView, now: float) -> str:
    """The reason, and since when acceptance is off its normal, as far as they are known."""
    parts = [finding.cause for finding in view.findings[:1] if finding.cause]
    if view.drift.alarmed and view.drift.since is not None:
        words = "since" if verdict is Verdict.DRIFTED else "drifted since"
        parts.append(f"{words} {time_of_day(view.drift.since, now)}")
    return f" ({', '.join(parts)})" if parts else ""
