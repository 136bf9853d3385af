"""How ``specwatch check`` words what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specwatch.alerting.text import clean, cut
from specwatch.cli.status_text import NONE, known
from specwatch.sidecar.views import TargetView
from specwatch.signals.catalogue import Value
from specwatch.signals.findings import Level
from specwatch.signals.speedup import ASSUMED, band

MARKS = {Level.OK: ("✓", "green"), Level.NOTICE: ("•", "cyan"), Level.PROBLEM: ("✗", "red")}
"""How findings are marked; the sign carries the meaning, the colour only repeats it."""

LONGEST_WORD = 100
"""Characters of a name that are shown: a page may hold any, and the figures are to stay in sight."""

LONGEST_SENTENCE = 500
"""Characters of a finding that are shown; it may quote the page."""


def report(view: TargetView) -> Group:
    """The report for people."""
    parts: list[Any] = [Text(_safe(view.target.server), style="bold")]
    facts = _facts(view)
    if facts:
        parts.append(Text(" · ".join(facts)))
    rows = _rows(view)
    if rows:
        parts += [Text(), Text(_window_line(view), style="dim"), Padding(_table(rows), (0, 0, 0, 2))]
    parts += [Text(), _findings(view)]
    if isinstance(view.headline.values["estimated_speedup"], float) and not _tells_its_cost(view):
        parts += [Text(), Text(_draft_cost(view), style="dim")]
    return Group(*parts)


def as_json(view: TargetView) -> dict[str, Any]:
    """The same for scripts; ``signals`` cover ``window_seconds``, null where there is not enough to say."""
    window = view.headline
    return {
        "url": view.target.url,
        "up": view.up,
        "error": view.error,
        "release": view.release,
        "dialect": view.dialect.value if view.dialect else None,
        "model": view.model_name,
        "engines": view.engines,
        "k": view.k,
        "window_seconds": window.seconds,
        "signals": dict(window.values),
        "since_start": dict(view.since_start),
        "draft_cost": asdict(view.cost),
        "speedups": [asdict(speedup) | {"kind": speedup.kind.value} for speedup in view.speedups],
        "findings": [asdict(finding) | {"level": finding.level.value} for finding in view.findings],
    }


def _safe(text: str) -> str:
    """A text from the server's page, fit for a terminal."""
    return cut(clean(text), LONGEST_WORD)


def _facts(view: TargetView) -> list[str]:
    facts = [
        f"vLLM {view.release}" if view.release else "",
        f"dialect {view.dialect.value}" if view.dialect else "",
        _safe(view.model_name or ""),
        f"K = {view.k}" if view.k else "",
        f"{view.engines} engines" if view.engines > 1 else "",
    ]
    return [fact for fact in facts if fact]


def _window_line(view: TargetView) -> str:
    seconds = view.headline.seconds
    return "since the server started" if seconds is None else f"over the last {seconds:.1f} s"


def _table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def _findings(view: TargetView) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in view.findings:
        sign, colour = MARKS[finding.level]
        table.add_row(Text(sign, style=colour), Text(cut(clean(finding.text), LONGEST_SENTENCE)))
        if finding.remedy and finding is view.findings[0]:
            table.add_row(Text(), Text(cut(clean(finding.remedy), LONGEST_SENTENCE), style="dim"))
    return table


def _rows(view: TargetView) -> list[tuple[str, str, str]]:
    values = view.headline.values
    rows = [
        ("acceptance rate", known(values["acceptance_rate"], "{:.1%}"), _positions(values["position_acceptance"])),
        ("acceptance length", known(values["acceptance_length"], "{:.2f}"), "tokens a drafted step, bonus included"),
        ("mean K", known(values["draft_length"], "{:.2f}"), "draft tokens a draft"),
        ("coverage", known(values["draft_coverage"], "{:.0%}"), "of decode steps were drafted"),
        ("estimated speedup", known(values["estimated_speedup"], "≤ {:.2f} ×"), _stray(values["estimated_speedup"])),
        ("throughput", known(values["generation_throughput"], "{:.0f}"), "tokens generated a second"),
        ("mean TPOT", known(values["tpot"], "{:.2f} ms", 1000), "of the requests that ended"),
        ("batch size", known(values["running_requests"], "{:.1f}"), "requests running, on average"),
    ]
    rows += [
        (f"{name.replace('_', ' ')}, since start", known(value, "{:.1%}" if "rate" in name else "{:.2f}"), "V0 average")
        for name, value in view.since_start.items()
    ]
    return [row for row in rows if row[1] != NONE]


def _positions(value: Value) -> str:
    known = [rate for rate in value if rate is not None] if isinstance(value, tuple) else []
    return "by position " + " ".join(f"{rate:.0%}" for rate in known) if known else ""


def _stray(speedup: Value) -> str:
    if not isinstance(speedup, float):
        return ""
    low, high = band(speedup)
    return f"published measurements stray to {low:.2f}–{high:.2f} ×"


def _tells_its_cost(view: TargetView) -> bool:
    return any(view.cost.source in finding.text for finding in view.findings)


def _draft_cost(view: TargetView) -> str:
    remedy = "; --draft-cost sets it" if view.cost == ASSUMED else ""
    return f"Draft cost, {view.cost.source}{remedy}."
