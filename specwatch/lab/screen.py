"""The demonstration in the terminal: a live picture where there is a terminal, lines where there is a pipe."""

from __future__ import annotations

import sys
import termios
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from specwatch.lab.picture import (
    MESSAGES_SHOWN,
    MOST_SPARKS,
    NAMES,
    Moment,
    drift,
    percent,
    picture,
    speedup,
    value,
)
from specwatch.lab.show import Look, Scene
from specwatch.lab.sink import Received

LINE_EVERY = 5.0
"""Seconds between two lines of figures in a pipe."""

BAR_WIDTH = 30

LOCAL_MODES = 3
"""Where ``termios.tcgetattr`` has the flags of which echoing is one."""


class Screen(Protocol):
    """Where the demonstration shows itself."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """A line that stays."""

    def pin(self, lines: Sequence[str]) -> None:
        """Lines to keep in sight from now on."""

    def waiting(self, what: str, seconds: float) -> None:
        """Something takes its time."""

    def progress(self, what: str, fraction: float) -> None:
        """Something is so far done, 0 to 1."""

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """What can be seen now."""


def screen(console: Console) -> Screen:
    """The screen that fits the console."""
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class _Messages:
    """Which messages of a look are new: a look holds all of its scene, oldest first."""

    def __init__(self) -> None:
        self._scene: Scene | None = None
        self._seen = 0

    def new(self, scene: Scene, look: Look) -> Sequence[Received]:
        if scene is not self._scene:
            self._scene, self._seen = scene, 0
        fresh = look.messages[self._seen :]
        self._seen = len(look.messages)
        return fresh


class PlainScreen:
    """Lines, for a pipe or a log: figures every few seconds, every message once."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scene: Scene | None = None
        self._next_line = 0.0
        self._last_wait = ""
        self._messages = _Messages()

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str) -> None:
        """Print a line."""
        self._print(text)

    def pin(self, lines: Sequence[str]) -> None:
        """Print the lines; what is printed stays."""
        for line in lines:
            self._print(line)

    def waiting(self, what: str, seconds: float) -> None:
        """Print when the wait begins, and every ten seconds."""
        self._print_once(f"… {what}" + (f" ({seconds // 10 * 10:.0f} s)" if seconds >= 10 else ""))

    def progress(self, what: str, fraction: float) -> None:
        """Print every tenth."""
        self._print_once(f"… {what}: {int(fraction * 10) * 10}%")

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """Print the scene when it begins, figures now and then, every message as it arrives."""
        if scene is not self._scene:
            self._scene, self._next_line = scene, 0.0
            self._print(f"\n== {scene.title}\n   {scene.explanation}")
        for message in self._messages.new(scene, look):
            self._print(f"  -> {NAMES[message.service]} received: {message.text.title}")
            for line in message.text.lines:
                self._print(f"       {line}")
        if seconds >= self._next_line:
            self._next_line += LINE_EVERY
            for target in look.signals:
                self._print(f"  {seconds:4.0f} s  {_figures(target)}")

    def _print_once(self, line: str) -> None:
        if line != self._last_wait:
            self._print(line)
        self._last_wait = line

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False, highlight=False)


class LiveScreen:
    """One picture that is drawn again and again."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._open = ExitStack()
        self._rates: dict[str, deque[float | None]] = {}
        self._messages = _Messages()
        self._received: deque[Received] = deque(maxlen=MESSAGES_SHOWN)
        self._pinned: Sequence[str] = ()

    def __enter__(self) -> LiveScreen:
        self._open.enter_context(_silent_keys())
        self._open.enter_context(self._live)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, problem, trace)

    def say(self, text: str) -> None:
        """Print above the picture."""
        self._live.console.print(text, markup=False, highlight=False)

    def pin(self, lines: Sequence[str]) -> None:
        """Make the lines a part of the picture."""
        self._pinned = tuple(lines)

    def waiting(self, what: str, seconds: float) -> None:
        """Show what is waited for."""
        self._live.update(Text(f"… {what} ({seconds:.0f} s)", style="cyan"), refresh=True)

    def progress(self, what: str, fraction: float) -> None:
        """Show how far it is."""
        bar = ("━" * int(fraction * BAR_WIDTH)).ljust(BAR_WIDTH, "┄")
        self._live.update(Text.assemble((f"… {what} ", "cyan"), bar, f" {fraction:.0%}"), refresh=True)

    def watch(self, scene: Scene, seconds: float, look: Look) -> None:
        """Draw the picture."""
        self._received.extend(self._messages.new(scene, look))
        for target in look.signals:
            points = self._rates.setdefault(target["target"]["name"], deque(maxlen=MOST_SPARKS))
            points.append(value(target, "acceptance_rate"))
        moment = Moment(
            scene=scene,
            seconds=seconds,
            look=look,
            rates={name: tuple(points) for name, points in self._rates.items()},
            messages=tuple(self._received),
            pinned=self._pinned,
        )
        self._live.update(picture(moment, self._live.console.width), refresh=True)


@contextmanager
def _silent_keys() -> Iterator[None]:
    """Let the terminal not show what is typed: behind ``^C`` or an empty line the picture would be drawn too low."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = termios.tcgetattr(sys.stdin)
    silent[LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _figures(target: dict[str, Any]) -> str:
    rate = percent(value(target, "acceptance_rate"))
    return (
        f"{target['target']['name']}: acceptance {rate} over {target['headline_window']}, "
        f"speedup {speedup(target)} (estimated), drift {drift(target)}"
    )
