"""What ``specwatch verify`` found, for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from specwatch import __version__
from specwatch.alerting.text import clean
from specwatch.measure.losslessness import Check, Reading, Verdict
from specwatch.measure.verify import Report, Result

FORMAT = 1
"""Raised when a key of the JSON changes its meaning."""

TITLES = {
    "surprise": "surprise of a token, nats",
    "likeliest": "likeliest token",
    "likeliest_open": "  where none has half",
    "likeliest_sure": "  where one has half or more",
    "unlikely": "outside the likeliest 90%",
}
"""Of the checks, in words."""


def as_text(report: Report) -> str:
    """A few lines a temperature."""
    lines = [_head(report)]
    for result in report.results:
        lines += ["", *_result(result)]
    return "\n".join(lines)


def _head(report: Report) -> str:
    parts = [report.url, f"vLLM {clean(report.release)}" if report.release else "unknown release", clean(report.model)]
    if report.listed is not None:
        parts.append(f"scores list {'all ' if report.whole else ''}{report.listed} tokens")
    return " · ".join(parts)


def _result(result: Result) -> Iterator[str]:
    reading, verdict = result.reading, result.verdict
    shown = verdict.value.upper() if verdict is Verdict.DISTORTED else verdict.value
    yield f"temperature {reading.temperature:g}: {shown}"
    if reading.tokens:
        yield f"  {_many(reading.tokens, 'token')} in {_many(result.answers, 'answer')}; {_drafted(result)}"
        yield from _sampled(reading) if reading.temperature > 0 else _greedy(reading)
    if verdict is Verdict.INCONCLUSIVE:
        yield f"  {_why(result)}"


def _many(count: float, noun: str) -> str:
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def _drafted(result: Result) -> str:
    drafted = result.drafted
    if drafted is None:
        return "its page does not tell what was drafted meanwhile"
    if result.speculates is False:
        return "the server serves without speculation, so this is its plain sampling"
    text = f"{_many(drafted.draft_tokens, 'token')} drafted meanwhile, {drafted.accepted:,.0f} accepted"
    return text + (", for other traffic too" if result.shared else "")


def _sampled(reading: Reading) -> Iterator[str]:
    yield f"  {'':28}{'text':>9}{'model':>9}{'±':>8}{'z':>9}"
    for check in reading.checks:
        shown = "{:.3g}" if check.name == "surprise" else "{:.1%}"
        figures = (shown.format(value) for value in (check.observed, check.expected, check.excluded))
        observed, expected, excluded = figures
        yield f"  {TITLES[check.name]:28}{observed:>9}{expected:>9}{excluded:>8}{check.z:>+9.1f}"
    if reading.verdict is Verdict.DISTORTED:
        yield f"  the evidence is {reading.evidence:.3g} times what it takes"


def _greedy(reading: Reading) -> Iterator[str]:
    if reading.off:
        off = f"{_many(reading.off, 'token')} {'is' if reading.off == 1 else 'are'}"
        yield f"  {off} not the likeliest by the server's own score, by up to {reading.worst:.3g} nats"
    else:
        yield f"  every token is the likeliest by the server's own score; at most {reading.off_at_most:.2%} can be off"
    yield f"  near-ties: {reading.near_ties} of {reading.ties} went to the other token"


def _why(result: Result) -> str:
    if result.reading.verdict is Verdict.SOUND:
        return "speculation is configured and nothing was drafted for this text, so nothing of it was tested"
    if not result.reading.tokens:
        return "nothing was scored"
    if result.reading.more_tokens is None:
        return "no number of tokens can tell: too few log-probabilities are listed (--max-logprobs of the server)"
    return f"no distortion found; about {_many(result.reading.more_tokens, 'more token')} to exclude one (--tokens)"


def as_json(report: Report) -> dict[str, Any]:
    """One object; docs/verify.md lists its keys."""
    return {
        "format": FORMAT,
        "specwatch": __version__,
        "url": report.url,
        "release": report.release,
        "model": report.model,
        "verdict": report.verdict.value,
        "problem": report.problem,
        "listed_logprobs": report.listed,
        "whole_vocabulary": report.whole,
        "temperatures": [_entry(result) for result in report.results],
    }


def _entry(result: Result) -> dict[str, Any]:
    reading, drafted = result.reading, result.drafted
    entry: dict[str, Any] = {
        "temperature": reading.temperature,
        "verdict": result.verdict.value,
        "tokens": reading.tokens,
        "answers": result.answers,
        "more_tokens": reading.more_tokens,
        "speculates": result.speculates,
        "drafts": drafted.drafts if drafted else None,
        "draft_tokens": drafted.draft_tokens if drafted else None,
        "accepted_tokens": drafted.accepted if drafted else None,
        "other_traffic": result.shared,
    }
    if reading.temperature > 0:
        return {
            **entry,
            "evidence": reading.evidence,
            "checks": {check.name: _check(check) for check in reading.checks},
        }
    return {
        **entry,
        "off_tokens": reading.off,
        "off_at_most": reading.off_at_most,
        "worst_nats": reading.worst,
        "near_ties_lost": reading.near_ties,
        "near_ties": reading.ties,
    }


def _check(check: Check) -> dict[str, float]:
    return {
        "observed": check.observed,
        "expected": check.expected,
        "excluded_beyond": check.excluded,
        "truncation": check.truncation,
        "z": check.z,
    }
