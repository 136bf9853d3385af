"""The demonstration in the terminal: a live picture where there is a terminal, lines where there is a pipe."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from specwatch.lab.show import Look, Scene
from specwatch.lab.sink import Received, Service

SPARKS = "▁▂▃▄▅▆▇█"
SPARK_POINTS = 30
LINE_EVERY = 5.0
"""Seconds between two lines of figures in a pipe."""

MESSAGES_SHOWN = 6

NAMES = {Service.SLACK: "Slack", Service.PAGERDUTY: "PagerDuty"}


class Screen(Protocol):
    """Where the demonstration shows itself."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """A line that stays."""

    def waiting(self, what: str, seconds: float) -> None:
        """Something takes its time."""

    def progress(self, what: str, fraction: float) -> None:
        """Something is so far done, 0 to 1."""

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """What can be seen now."""


def screen(console: Console) -> Screen:
    """The screen that fits the console."""
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class PlainScreen:
    """Lines, for a pipe or a log: figures every few seconds, every message once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scene: Scene | None = None
        self._next_line = 0.0
        self._last_wait = ""
        self._shown: set[float] = set()

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """Print a line."""
        self._print(text)

    def waiting(self, what: str, seconds: float) -> None:
        """Print when the wait begins, and every ten seconds."""
        line = f"… {what}" + (f" ({seconds // 10 * 10:.0f} s)" if seconds >= 10 else "")
        if line != self._last_wait:
            self._print(line)
        self._last_wait = line

    def progress(self, what: str, fraction: float) -> None:
        """Print every tenth."""
        line = f"… {what}: {int(fraction * 10) * 10} %"
        if line != self._last_wait:
            self._print(line)
        self._last_wait = line

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """Print the scene when it begins, figures now and then, every message as it arrives."""
        if scene is not self._scene:
            self._scene, self._next_line = scene, 0.0
            self._print(f"\n== {scene.title}\n   {scene.explanation}")
        for message in look.messages:
            if message.at not in self._shown:
                self._shown.add(message.at)
                self._print(f"  -> {NAMES[message.service]} received: {message.text.title}")
                for line in message.text.lines:
                    self._print(f"       {line}")
        if seconds >= self._next_line:
            self._next_line += LINE_EVERY
            for target in look.signals:
                self._print(f"  {seconds:4.0f} s  {_figures(target)}")

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)


class LiveScreen:
    """One picture that is drawn again and again."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._rates: dict[str, deque[float | None]] = {}
        self._messages: deque[Received] = deque(maxlen=MESSAGES_SHOWN)
        self._footer = ""

    def __enter__(self) -> LiveScreen:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, problem, trace)

    def say(self, text: str) -> None:
        """Print above the picture; the last line said stays below it too."""
        self._footer = text
        self._live.console.print(text, markup=False, highlight=False)

    def waiting(self, what: str, seconds: float) -> None:
        """Show what is waited for."""
        self._live.update(Text(f"… {what} ({seconds:.0f} s)", style="cyan"), refresh=True)

    def progress(self, what: str, fraction: float) -> None:
        """Show how far it is."""
        width = 30
        bar = "━" * int(fraction * width)
        self._live.update(
            Text.assemble((f"… {what} ", "cyan"), bar.ljust(width, "┄"), f" {fraction:.0%}"), refresh=True
        )

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """Draw the picture."""
        for message in look.messages:
            if message not in self._messages:
                self._messages.append(message)
        for target in look.signals:
            points = self._rates.setdefault(target["target"]["name"], deque(maxlen=SPARK_POINTS))
            points.append(_value(target, "acceptance_rate"))
        self._live.update(Group(*self._parts(scene, seconds, look)), refresh=True)

    def _parts(self, scene: Scene, seconds: float, look: Look) -> Iterator[RenderableType]:
        yield Rule(f"{scene.title} · {seconds:.0f} s", align="left", style="cyan")
        yield Text(scene.explanation, style="dim")
        yield Text()
        yield self._servers(look)
        yield Text()
        yield _alerts(look)
        yield self._received()
        if self._footer:
            yield Text(self._footer, style="dim")

    def _servers(self, look: Look) -> Table:
        window = look.signals[0]["headline_window"] if look.signals else ""
        table = Table(box=None, pad_edge=False, expand=False, header_style="dim")
        table.add_column("server")
        table.add_column(f"acceptance, {window}", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("speedup, est.", justify="right", no_wrap=True)
        table.add_column("drift", no_wrap=True)
        for target in look.signals:
            name = target["target"]["name"]
            rate = _value(target, "acceptance_rate")
            table.add_row(
                Text(name),
                Text(_percent(rate), style=_colour(rate)),
                Text(_sparkline(self._rates[name]), style=_colour(rate)),
                _speedup(target),
                Text(_drift(target)),
            )
        return table

    def _received(self) -> RenderableType:
        if not self._messages:
            return Panel(Text("nothing yet", style="dim"), title="received at Slack and PagerDuty", title_align="left")
        lines: list[RenderableType] = []
        for message in self._messages:
            at = time.strftime("%H:%M:%S", time.localtime(message.at))
            lines.append(
                Text(f"{at}  {NAMES[message.service]:9}  {message.text.title}", overflow="ellipsis", no_wrap=True)
            )
        last = self._messages[-1]
        lines += [
            Text(f"          {line}", style="dim", overflow="ellipsis", no_wrap=True) for line in last.text.lines[:4]
        ]
        return Panel(Group(*lines), title="received at Slack and PagerDuty", title_align="left")


def _alerts(look: Look) -> RenderableType:
    if not look.alerts:
        return Text("no alerts")
    signs = {"firing": ("● firing  ", "red"), "pending": ("○ pending ", "yellow"), "resolved": ("✓ resolved", "green")}
    lines = [
        Text.assemble(signs[alert["state"]], f"  {alert['name']}  {alert['target']}", overflow="ellipsis")
        for alert in look.alerts[:MESSAGES_SHOWN]
    ]
    return Group(*lines)


def _figures(target: dict[str, Any]) -> str:
    rate = _percent(_value(target, "acceptance_rate"))
    return (
        f"{target['target']['name']}: acceptance {rate} over {target['headline_window']}, "
        f"speedup {_speedup(target)} (estimated, at most), drift {_drift(target)}"
    )


def _value(target: dict[str, Any], name: str) -> float | None:
    value: float | None = target["windows"][target["headline_window"]]["values"][name]
    return value


def _percent(rate: float | None) -> str:
    return "no value" if rate is None else f"{rate:.1%}"


def _speedup(target: dict[str, Any]) -> str:
    value = _value(target, "estimated_speedup")
    return "no value" if value is None else f"≤ {value:.2f} ×"


def _drift(target: dict[str, Any]) -> str:
    drift = target["drift"]
    if drift["score"] is None:
        return f"learning, {drift['learned']:.0%}"
    state = "left its normal" if drift["score"] >= 1 else "normal"
    return f"{drift['score']:.2f} {state}, reference {drift['reference']:.1%}"


def _colour(rate: float | None) -> str:
    if rate is None:
        return "dim"
    return "yellow" if rate < 0.6 else "cyan"


def _sparkline(points: deque[float | None]) -> str:
    top = len(SPARKS) - 1
    return "".join(" " if p is None else SPARKS[round(max(0.0, min(1.0, p)) * top)] for p in points).ljust(SPARK_POINTS)
