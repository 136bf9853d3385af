"""How ``specwatch check`` words what it found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specwatch.sidecar.watch import TargetView
from specwatch.signals.catalogue import Value
from specwatch.signals.diagnosis import Level
from specwatch.signals.speedup import band

MARKS = {Level.OK: ("✓", "green"), Level.NOTICE: ("•", "cyan"), Level.PROBLEM: ("✗", "red")}
"""How findings are marked; the sign carries the meaning, the colour only repeats it."""


def report(view: TargetView) -> Group:
    """The report for people."""
    window = view.headline
    parts: list[Any] = [_headline(view)]
    rows = _rows(view)
    if rows:
        parts += [Text(_window_line(view, window.seconds), style="dim"), Padding(_table(rows), (1, 0, 1, 2))]
    for finding in view.findings:
        sign, colour = MARKS[finding.level]
        parts.append(Text.assemble((f"{sign} ", colour), finding.text))
    return Group(*parts)


def as_json(view: TargetView) -> dict[str, Any]:
    """The same for scripts; ``signals`` cover ``window_seconds``, null where there is not enough to say."""
    window = view.headline
    return {
        "url": view.target.url,
        "up": bool(view.up),
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
        "findings": [{"code": f.code, "level": f.level.value, "text": f.text} for f in view.findings],
    }


def _headline(view: TargetView) -> Text:
    words = [view.target.server]
    if view.release:
        words.append(f"vLLM {view.release}")
    if view.dialect:
        words.append(f"dialect {view.dialect.value}")
    if view.model_name:
        words.append(view.model_name)
    if view.k:
        words.append(f"K = {view.k}")
    if view.engines > 1:
        words.append(f"{view.engines} engines")
    return Text(" · ".join(words), style="bold")


def _window_line(view: TargetView, seconds: float | None) -> str:
    if seconds is None:
        return "averages since the server started" if view.since_start else "waiting for a second scrape"
    return f"over the last {seconds:.1f} s"


def _table(rows: list[tuple[str, str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*row)
    return table


def _rows(view: TargetView) -> list[tuple[str, str, str]]:
    values = view.headline.values
    rows = [
        ("acceptance rate", _show(values["acceptance_rate"], "{:.1%}"), _positions(values["position_acceptance"])),
        ("acceptance length", _show(values["acceptance_length"], "{:.2f}"), "tokens a drafted step, bonus included"),
        ("mean K", _show(values["draft_length"], "{:.2f}"), "draft tokens a draft"),
        ("coverage", _show(values["draft_coverage"], "{:.0%}"), "of decode steps were drafted"),
        ("speedup, estimated", _show(values["estimated_speedup"], "≤ {:.2f} ×"), _speedup_note(view)),
        ("generating", _show(values["generation_throughput"], "{:.0f}"), "tokens a second"),
        ("mean TPOT", _show(values["tpot"], "{:.2f} ms", 1000), "of the requests that ended"),
        ("batch size", _show(values["running_requests"], "{:.1f}"), "requests running, on average"),
    ]
    rows += [
        (f"{name.replace('_', ' ')}, since start", _show(value, "{:.1%}" if "rate" in name else "{:.2f}"), "V0 average")
        for name, value in view.since_start.items()
    ]
    return [row for row in rows if row[1]]


def _show(value: Value, form: str, factor: float = 1.0) -> str:
    return form.format(value * factor) if isinstance(value, float) else ""


def _positions(value: Value) -> str:
    known = [rate for rate in value if rate is not None] if isinstance(value, tuple) else []
    return "by position " + " ".join(f"{rate:.0%}" for rate in known) if known else ""


def _speedup_note(view: TargetView) -> str:
    speedup = view.headline.values["estimated_speedup"]
    if not isinstance(speedup, float):
        return ""
    low, high = band(speedup)
    return f"published measurements stray to {low:.2f}–{high:.2f}; {view.cost.source}"
