"""One server in full: its diagnosis and what to do, its alerts, its figures by window, what the scrape saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

from specwatch.alerting.diagnosis_text import in_its_unit
from specwatch.cli.check_report import MARKS
from specwatch.cli.status_table import Server, alert_words, window_words
from specwatch.cli.status_text import (
    COLOURS,
    GAP,
    NONE,
    RING,
    SIGNS,
    aligned,
    by_signal,
    cut,
    factor,
    known,
    name,
    safe,
)
from specwatch.sidecar.headline import time_of_day
from specwatch.sidecar.verdict import speedup_of
from specwatch.sidecar.views import TargetView
from specwatch.signals.catalogue import Signal, Value, signals
from specwatch.signals.findings import Finding, duration
from specwatch.signals.speedup import SpeedupKind, band

INDENT = 2

LONGEST = 1000
"""Cells of a sentence that may quote a page."""

NAME_CELLS = 60

SHORTEST_TITLE = 24
"""Cells of a signal's title, whatever its figures take."""


def details(server: Server, now: float, width: int) -> list[Text]:
    """Everything there is to say of a server, in lines of at most ``width`` cells."""
    lines: list[Text] = []
    for part in (_facts, _findings, _alerts, _worth, _drift, _positions):
        made = [line for text in part(server, now) for line in _wrapped(text, width)]
        lines += [Text(), *made] if made and lines else made
    return [*lines, Text(), *_figures(server.view, width)]


def title(server: Server) -> Text:
    """Its name and how it stands."""
    words = server.judged.words
    sign = f"{SIGNS.get(server.judged.verdict, RING)} {words.word}"
    return Text.assemble((name(server.view.target.name, NAME_CELLS), "bold"), "  ", (sign, COLOURS[words.tone]))


def _wrapped(text: Text, width: int) -> list[Text]:
    """Lines of a text; those after the first stand in."""
    lines = text.wrap(Console(width=width), max(width - INDENT, 10), overflow="fold")
    return [*lines[:1], *(Text(" " * INDENT) + line for line in lines[1:])]


def _facts(server: Server, now: float) -> Iterator[Text]:
    view = server.view
    facts = [
        f"vLLM {safe(view.release)}" if view.release else "",
        f"dialect {view.dialect.value}" if view.dialect else "",
        cut(view.model_name or "", NAME_CELLS),
        safe(view.method or ""),
        f"K = {view.k}" if view.k else "",
        f"{view.engines} engines" if view.engines > 1 else "",
    ]
    seen = f"last good scrape {duration(now - view.last_scrape)} ago" if view.last_scrape else "no good scrape yet"
    restarts = f"{view.restarts} restart{'s' * (view.restarts != 1)} seen"
    yield Text(" · ".join(fact for fact in facts if fact) or "nothing is known of it yet")
    yield Text(f"{cut(view.target.url, LONGEST)} · {seen} · {restarts}", style="dim")


def _findings(server: Server, now: float) -> Iterator[Text]:
    for finding in server.view.findings:
        sign, colour = MARKS[finding.level]
        yield Text.assemble((sign, colour), " ", cut(finding.text, LONGEST))
        yield from _more(finding)


def _more(finding: Finding) -> Iterator[Text]:
    numbers = ", ".join(f"{figure.name.replace('_', ' ')} {in_its_unit(figure)}" for figure in finding.evidence)
    if finding.remedy:
        yield Text(f"{' ' * INDENT}{cut(finding.remedy, LONGEST)}", style="bold")
    if numbers:
        yield Text(f"{' ' * INDENT}{cut(numbers, LONGEST)}", style="dim")


def _alerts(server: Server, now: float) -> Iterator[Text]:
    for alert in server.alerts or ():
        style = COLOURS[server.tone] if alert in server.firing else ""
        yield Text(cut(alert_words(alert, now), LONGEST), style=style)


def _worth(server: Server, now: float) -> Iterator[Text]:
    """How the speedup is known, what it saves, and the K that would be best."""
    view = server.view
    value, kind = speedup_of(view)
    if value is None:
        return
    window = window_words(view, view.headline_window)
    best = next((speedup for speedup in view.speedups if speedup.kind is kind), None)
    low, high = (best.low, best.high) if best and kind is not SpeedupKind.ESTIMATED else band(value)
    meaning = "published measurements stray to" if kind is SpeedupKind.ESTIMATED else "95% interval"
    within = "" if low is None else f"; {meaning} {known(low, '{:.2f}')}–{known(high, '{:.2f}')}×"
    yield Text.assemble("Speedup ", (factor(value, kind), "bold"), f" {kind.value}, over {window}{within}")
    yield Text(f"{' ' * INDENT}known from: {cut(best.source if best else view.cost.source, LONGEST)}", style="dim")
    told = (
        [_best_k(best.recommended_k, best.recommended_speedup, kind), _saves(best.tokens_saved_per_hour)]
        if best
        else []
    )
    if any(told):
        yield Text(f"{' ' * INDENT}{'; '.join(filter(None, told))}")


def _best_k(k: int | None, speedup: float | None, kind: SpeedupKind) -> str:
    if k is None:
        return ""
    return f"best K on this traffic: {k} ({factor(speedup, kind)} {kind.value})" if k else "no K pays on this traffic"


def _saves(tokens: float | None) -> str:
    if tokens is None:
        return ""
    return f"{'costs' if tokens < 0 else 'saves'} {abs(tokens):,.0f} tokens an hour"


def _drift(server: Server, now: float) -> Iterator[Text]:
    drift = server.view.drift
    if drift.score is None:
        if drift.learned > 0:
            yield Text(f"Drift: its normal acceptance is being learned, {drift.learned:.0%} done")
        return
    called = f", {safe(drift.reference_name)}" if drift.reference_name else ""
    score = (known(drift.score, "{:.2f}"), "bold yellow" if drift.alarmed else "bold")
    yield Text.assemble("Drift ", score, f", alarm at 1; normal acceptance {known(drift.reference, '{:.1%}')}{called}")
    if drift.since is not None and drift.change is not None:
        points = [
            f"{100 * share:+.1f}" for share in (drift.change, drift.change_low, drift.change_high) if share is not None
        ]
        interval = f" (95% interval {points[1]} to {points[2]})" if len(points) == 3 else ""
        yield Text(
            f"{' ' * INDENT}{drift.direction} since {time_of_day(drift.since, now)}: {points[0]} points{interval}"
        )


def _figures(view: TargetView, width: int) -> Iterator[Text]:
    """A line a signal, a column a window; below a signal its 95 % interval."""
    labels = [label for label, window in view.windows.items() if window.seconds is not None]
    told = [view.windows[label].values for label in labels]
    rows = [row for signal in signals() for row in _rows(signal, told)]
    if rows:
        heads = [Text(head, style="dim") for head in ("over", *(window_words(view, label) for label in labels))]
        columns = list(zip(heads, *rows, strict=True))
        figures = aligned(columns[1:], [True for _ in labels])
        room = max(SHORTEST_TITLE, width - max(line.cell_len for line in figures) - len(GAP))
        titles = [Text(cut(title.plain, room), style=title.style) for title in columns[0]]
        for line in aligned([titles, figures], [False, True]):
            line.truncate(width, overflow="ellipsis")
            yield line
    for name_of, average in view.since_start.items():
        yield Text(f"{name_of.replace('_', ' ')} since the server's start: {known(average, '{:.3g}')}")


def _rows(signal: Signal, told: Sequence[Mapping[str, Value]]) -> Iterator[list[Text]]:
    if signal.name.endswith(("_low", "_high")) or not any(isinstance(values[signal.name], float) for values in told):
        return
    yield [Text(signal.title), *(Text(by_signal(signal, values[signal.name])) for values in told)]
    ends = [_interval(signal, values) for values in told]
    if any(end != NONE for end in ends):
        yield [Text(f"{' ' * INDENT}95% interval", style="dim"), *(Text(end, style="dim") for end in ends)]


def _interval(signal: Signal, values: Mapping[str, Value]) -> str:
    low, high = (by_signal(signal, values.get(f"{signal.name}_{end}")) for end in ("low", "high"))
    return NONE if NONE in (low, high) else f"{low.removesuffix('%')}–{high}"


def _positions(server: Server, now: float) -> Iterator[Text]:
    view = server.view
    rates = view.headline.values["position_acceptance"]
    if isinstance(rates, tuple) and any(rate is not None for rate in rates):
        shown = " ".join(known(rate, "{:.0%}") for rate in rates)
        yield Text(f"Acceptance by position, over {window_words(view, view.headline_window)}: {shown}")
