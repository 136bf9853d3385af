"""What the demonstration looks like at one moment, in a terminal.

The most important comes first, and the newest message before older ones: a small window cuts off the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from specwatch.lab.show import Look, Scene
from specwatch.lab.sink import Received, Service

SPARKS = "▁▂▃▄▅▆▇█"

MOST_SPARKS = 40
"""Points of a curve: at two looks a second, the last twenty seconds."""

FEWEST_SPARKS = 8
"""Points below which a curve shows nothing, and is left out for the figures' sake."""

OTHER_COLUMNS = 50
"""Characters of a line of the table without the server's name and the curve, at 100 %."""

LONGEST_NAME = 24
"""Characters of a server's name that are shown."""

DETAIL_LINES = 3
"""Lines of the newest message's text that are shown below the titles."""

MESSAGES_SHOWN = 6

NAMES = {Service.SLACK: "Slack", Service.PAGERDUTY: "PagerDuty"}

ALERT_SIGNS = {"firing": ("● firing", "red"), "pending": ("○ pending", "yellow"), "resolved": ("✓ resolved", "green")}
"""How alerts are marked; the sign and the word carry the meaning, the colour only repeats it."""


@dataclass(frozen=True)
class Moment:
    """What there is to draw."""

    scene: Scene
    seconds: float
    """Since the scene began."""
    look: Look
    rates: Mapping[str, Sequence[float | None]]
    """Acceptance rates of every server so far, oldest first."""
    messages: Sequence[Received]
    """Of all scenes, oldest first."""
    pinned: Sequence[str]
    """Lines that are always in sight: addresses."""


def picture(moment: Moment, width: int) -> RenderableType:
    """The whole picture, for a terminal of that many columns."""
    return Group(*_parts(moment, width))


def value(target: Mapping[str, Any], name: str) -> float | None:
    """A server's signal over its headline window."""
    found: float | None = target["windows"][target["headline_window"]]["values"][name]
    return found


def percent(rate: float | None) -> str:
    """A ratio as people read it."""
    return "no value" if rate is None else f"{rate:.1%}"


def speedup(target: Mapping[str, Any]) -> str:
    """The estimated speedup: an upper bound."""
    found = value(target, "estimated_speedup")
    return "no value" if found is None else f"≤ {found:.2f} ×"


def drift(target: Mapping[str, Any]) -> str:
    """The drift score and what it is measured from."""
    reading = target["drift"]
    if reading["score"] is None:
        return f"learning {reading['learned']:.0%}"
    return f"{reading['score']:.2f}  normal {reading['reference']:.1%}"


def sparkline(rates: Sequence[float | None], points: int) -> str:
    """The last points as a curve from 0 to 1; a gap where there was no value."""
    top = len(SPARKS) - 1
    return "".join(" " if rate is None else SPARKS[round(max(0.0, min(1.0, rate)) * top)] for rate in rates[-points:])


def _parts(moment: Moment, width: int) -> Iterator[RenderableType]:
    heading = f"{moment.scene.title} · {moment.seconds:.0f} s · Ctrl-C stops"
    yield Rule(Text(heading, style="bold"), align="left", style="cyan")
    yield Text(moment.scene.explanation)
    yield from (Text(line, style="dim") for line in moment.pinned)
    yield Text()
    yield _servers(moment, width)
    yield Text()
    yield _alerts(moment.look)
    yield Text()
    yield from _messages(moment.messages)


def _servers(moment: Moment, width: int) -> Table:
    targets = moment.look.signals
    window = targets[0]["headline_window"] if targets else ""
    name_width = min(max((len(target["target"]["name"]) for target in targets), default=0), LONGEST_NAME)
    points = min(MOST_SPARKS, width - OTHER_COLUMNS - name_width)
    drawn = points >= FEWEST_SPARKS
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("server", no_wrap=True, overflow="ellipsis", min_width=name_width, max_width=LONGEST_NAME)
    table.add_column("acceptance", justify="right", no_wrap=True)
    if drawn:
        table.add_column(f"over {window}", no_wrap=True, min_width=points)
    table.add_column("est. speedup", justify="right", no_wrap=True)
    table.add_column("drift, alarm at 1", no_wrap=True)
    for target in targets:
        name, rate = target["target"]["name"], value(target, "acceptance_rate")
        curve = [Text(sparkline(moment.rates.get(name, ()), points), style=_colour(rate))] if drawn else []
        table.add_row(
            Text(name),
            Text(percent(rate), style=_colour(rate)),
            *curve,
            speedup(target),
            Text(drift(target), style="yellow" if (target["drift"]["score"] or 0.0) >= 1 else ""),
        )
    return table


def _alerts(look: Look) -> RenderableType:
    """One line for an alert in a state, with every server it is about."""
    if not look.alerts:
        return Text("no alerts", style="dim")
    servers: dict[tuple[str, str], list[str]] = {}
    for alert in look.alerts:
        held = servers.setdefault((alert["state"], alert["name"]), [])
        if alert["target"] not in held:
            held.append(alert["target"])
    table = Table.grid(padding=(0, 2))
    for state, name in sorted(servers, key=lambda key: list(ALERT_SIGNS).index(key[0])):
        sign, colour = ALERT_SIGNS[state]
        table.add_row(Text(sign, style=colour), Text(name), Text(" ".join(sorted(servers[state, name])), style="dim"))
    return table


def _messages(messages: Sequence[Received]) -> Iterator[RenderableType]:
    yield Text("received by Slack and PagerDuty", style="dim")
    if not messages:
        yield Text("nothing yet", style="dim")
        return
    table = Table.grid(padding=(0, 2))
    for message in reversed(messages[-MESSAGES_SHOWN:]):
        at = time.strftime("%H:%M:%S", time.localtime(message.at))
        table.add_row(Text(at, style="dim"), Text(NAMES[message.service]), Text(message.text.title))
    yield table
    details = messages[-1].text.lines[:DETAIL_LINES]
    if details:
        yield Text("\nthe newest goes on", style="dim")
        yield from (Padding(Text(line), (0, 0, 0, 2)) for line in details)


def _colour(rate: float | None) -> str:
    if rate is None:
        return "dim"
    return "yellow" if rate < 0.6 else "cyan"
