"""Every server on one line, the worst first: the table that ``specwatch status`` and ``specwatch top`` show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from specwatch import config
from specwatch.alerting.catalogue import Severity
from specwatch.cli.sidecar_client import Alert
from specwatch.cli.status_source import Look
from specwatch.cli.status_text import (
    ALL,
    COLOURS,
    GAP,
    NONE,
    RING,
    SHORT_KINDS,
    SIGNS,
    aligned,
    cut,
    factor,
    known,
    name,
    per_second,
    safe,
    width_of,
)
from specwatch.sidecar.headline import time_of_day
from specwatch.sidecar.verdict import Judged, Tone, has_problem, ranked, speedup_of
from specwatch.sidecar.views import TargetView
from specwatch.signals.findings import Finding, Level

LONGEST_NAME = 48
"""Cells of a name where there is room."""

SHORTEST_NAME = 12
"""Cells of a name that are kept before a column of figures is."""

LONGEST_SENTENCE = 160
"""Cells of a finding in a table without end, as into a pipe."""

SHORTEST_SENTENCE = 40
"""Cells below which a finding is not begun in a table."""

LONG = 120.0
"""Seconds from which on a window's length is told in minutes."""

ALWAYS = 2
"""Columns that stay however narrow it is: the name and the state."""

PARTLY = 0.75
"""Share of a window from which on it counts as covered."""


@dataclass(frozen=True)
class Server:
    """A line of the table."""

    judged: Judged
    alerts: tuple[Alert, ...] | None
    """Those of this server that fire or are pending; None where they could not be read."""

    @property
    def view(self) -> TargetView:
        """What is known of it."""
        return self.judged.view

    @property
    def firing(self) -> list[Alert]:
        """Alerts that fire and that somebody is told of."""
        return [alert for alert in self.alerts or () if alert.state == "firing" and alert.is_loud]

    @property
    def pending(self) -> list[Alert]:
        """Alerts that will fire unless things get better."""
        return [alert for alert in self.alerts or () if alert.state == "pending" and alert.is_loud]

    @property
    def tone(self) -> Tone:
        """Whether somebody must look, for its state, its alerts or its diagnosis."""
        tone = self.judged.words.tone
        severities = {alert.severity for alert in self.firing}
        if tone is Tone.BAD or Severity.PAGE.value in severities:
            return Tone.BAD
        return Tone.WARN if tone is Tone.WARN or severities or has_problem(self.view) else tone


def servers(look: Look) -> list[Server]:
    """All of them, the worst first."""
    return [Server(judged, _alerts_of(judged.view.target.name, look)) for judged in ranked(look.targets)]


def _alerts_of(target: str, look: Look) -> tuple[Alert, ...] | None:
    if look.alerts is None:
        return None
    return tuple(alert for alert in look.alerts if alert.target == target and alert.state in ("firing", "pending"))


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    head: str
    cell: Callable[[Server], Text]
    keep: int
    """Columns of the highest number go first where a terminal is narrow."""
    right: bool = True


def _name(server: Server) -> Text:
    return Text(name(server.view.target.name, LONGEST_NAME))


def _state(server: Server) -> Text:
    words = server.judged.words
    return Text(f"{SIGNS.get(server.judged.verdict, RING)} {words.word}", style=COLOURS[words.tone])


def _speedup(server: Server) -> Text:
    value, kind = speedup_of(server.view)
    shown = factor(value, kind)
    return Text(NONE if shown == NONE else f"{shown} {SHORT_KINDS[kind]}", style="red" if (value or 1.0) < 1 else "")


def _acceptance(server: Server) -> Text:
    rate = server.view.headline.values["acceptance_rate"]
    average = server.view.since_start.get("acceptance_rate")
    if rate is None and average is not None:
        return Text(f"{known(average, '{:.1%}')} since start")
    return Text(known(rate, "{:.1%}"))


def _drift(server: Server) -> Text:
    drift = server.view.drift
    if drift.score is None:
        return Text(f"learning {drift.learned:.0%}" if drift.learned > 0 else NONE)
    return Text(known(drift.score, "{:.2f}"), style="yellow" if drift.alarmed else "")


def _window(server: Server) -> Text:
    return Text(window_words(server.view, server.view.headline_window))


def window_words(view: TargetView, label: str) -> str:
    """What a window covers: its label, or the seconds so far where that is not yet most of it."""
    seconds = view.windows[label].seconds
    if seconds is None:
        return NONE
    if seconds >= PARTLY * float(config.seconds(label)):
        return label
    return f"{seconds:.0f}s" if seconds < LONG else f"{seconds / 60:.0f}m"


def _alerts(server: Server) -> Text:
    if server.alerts is None:
        return Text(NONE)
    firing, pending = len(server.firing), len(server.pending)
    if firing:
        return Text(f"{firing} firing", style="red" if server.tone is Tone.BAD else "yellow")
    return Text(f"{pending} pending" if pending else "")


def _figure(signal: str, form: str) -> Callable[[Server], Text]:
    return lambda server: Text(known(server.view.headline.values[signal], form))


def _tokens(server: Server) -> Text:
    return Text(per_second(server.view.headline.values["generation_throughput"]))


def _model(server: Server) -> Text:
    return Text(name(server.view.model_name or "", LONGEST_NAME) or NONE)


COLUMNS = (
    Column("SERVER", _name, 0, right=False),
    Column("STATE", _state, 0, right=False),
    Column("SPEEDUP", _speedup, 1),
    Column("ACCEPT", _acceptance, 2),
    Column("OVER", _window, 3),
    Column("DRIFT", _drift, 4),
    Column("ALERTS", _alerts, 5, right=False),
    Column("BATCH", _figure("running_requests", "{:.1f}"), 6),
    Column("TOKENS/S", _tokens, 7),
    Column("LENGTH", _figure("acceptance_length", "{:.2f}"), 8),
    Column("COVERED", _figure("draft_coverage", "{:.0%}"), 9),
    Column("K", lambda server: Text(str(server.view.k or NONE)), 10),
    Column("MODEL", _model, 11, right=False),
)


def alert_words(alert: Alert, now: float) -> str:
    """An alert in a line."""
    return (
        f"{alert.state} since {time_of_day(alert.since, now)} ({alert.severity}): {safe(alert.summary)}, "
        f"{alert.value_text}, alarm {alert.condition}{'' if alert.is_loud else ', muted'}"
    )


def remark(view: TargetView) -> Finding | None:
    """What is said first of a server, where that is not that all is well."""
    return next((finding for finding in view.findings if finding.level is not Level.OK), None)


@dataclass(frozen=True)
class Table:
    """Lines for a terminal of some width."""

    head: Text
    lines: list[Text]
    """One a server."""


def table(rows: Sequence[Server], width: int | None, part: slice = ALL) -> Table:
    """The table in ``width`` cells, with as many columns as fit; all of them for None, as into a pipe.

    ``part`` says which servers' lines are wanted; columns are as wide as all need, so that they stay while one scrolls.
    """
    made = [(column, [Text(column.head, style="dim"), *map(column.cell, rows)]) for column in COLUMNS]
    kept = _fitting({column: width_of(cells) for column, cells in made}, width)
    columns = [cells for column, cells in made if column in kept]
    right = [column.right for column in kept]
    widths = list(kept.values())
    if width is not None and (room := widths[0] - max(0, _taken(widths) - width)) < widths[0]:
        columns[0] = [columns[0][0], *(Text(name(row.view.target.name, max(room, SHORTEST_NAME))) for row in rows)]
        widths[0] = width_of(columns[0])
    sentence = LONGEST_SENTENCE if width is None else width - _taken(widths) - len(GAP)
    if len(kept) == len(COLUMNS) and sentence >= SHORTEST_SENTENCE:
        columns.append([Text("WHY", style="dim"), *(_why(row, sentence) for row in rows)])
        right.append(False)
        widths.append(width_of(columns[-1]))
    (head,) = aligned([cells[:1] for cells in columns], right, widths)
    body = aligned([cells[1:][part] for cells in columns], right, widths)
    for row, line in zip(rows[part], body, strict=True):
        if not row.view.up:  # its figures are those of before
            line.stylize("dim")
    return Table(head, body)


def _fitting(widths: Mapping[Column, int], width: int | None) -> dict[Column, int]:
    """The columns, with their widths, that fit when names are cut short; name and state always stay."""
    kept = dict(widths)
    least = _taken(list(kept.values())) - max(0, kept[COLUMNS[0]] - SHORTEST_NAME)
    while width is not None and least > width and len(kept) > ALWAYS:
        least -= kept.pop(max(kept, key=lambda column: column.keep)) + len(GAP)
    return kept


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _why(server: Server, cells: int) -> Text:
    finding = remark(server.view)
    return Text(cut(finding.text, cells) if finding else "")
