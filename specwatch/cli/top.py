"""``specwatch top``: how every server stands, live."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import click
from rich.console import Console, Group
from rich.live import Live

from specwatch.cli.check import EXIT_INTERRUPTED
from specwatch.cli.running import run
from specwatch.cli.status_source import Asked, Look, Source, source_options
from specwatch.cli.status_table import servers
from specwatch.cli.top_keys import Keys, Unechoed
from specwatch.cli.top_screen import Heard, Screen
from specwatch.cli.top_view import View, pressed
from specwatch.errors import InputError, SpecwatchError

EXIT_TERMINATED = 128 + signal.SIGTERM

MISSED = 3
"""Questions without news after which figures count as stale."""

REST = 10.0
"""Times as long as an answer took until the next question: at most a tenth of the sidecar's time is for this screen. A
thousand servers are 6 MB, which it takes half a second to tell."""

LONGEST_REST = 30.0

REST_OF_A_KEY = 0.1
"""Seconds within which the rest of a key's sequence comes, also over ssh; after them an escape is one."""

AGEING = 1.0
"""Seconds between drawings while nothing comes, so that the age of the figures is seen to grow."""


@click.command("top", context_settings={"show_default": True})
@source_options
@click.option(
    "--interval", type=click.FloatRange(0.5, 60), default=2.0, metavar="SECONDS", help="Time between two looks."
)
def command(asked: Asked, interval: float) -> None:
    """Show how every server stands, as the sidecar at URL sees it, on one screen and live.

    URL is http://127.0.0.1:9108 unless given. With --target, servers are scraped from here instead and no sidecar is
    needed. The keys are shown at the bottom; when the sidecar is gone, the last figures stay and say how old they are.
    """
    console = Console(highlight=False)
    if not (sys.stdin.isatty() and console.is_terminal) or console.is_dumb_terminal:
        raise InputError(
            "top draws on a terminal, and this is none that it can: over ssh say ssh -t; into a pipe or a file, use "
            "specwatch status"
        )
    try:
        code = run(_run(asked, console, interval))
    except KeyboardInterrupt:  # before there was a screen
        code = EXIT_INTERRUPTED
    sys.exit(code)


async def _run(asked: Asked, console: Console, interval: float) -> int:
    async with asked.source() as source:
        # Whatever is wrong with the address or the token is a message, not a screen.
        return await Top(source, console, interval, await source.look()).run()


class Top:
    """Looks again and again, draws, and follows the keys, until it is told to end."""

    def __init__(self, source: Source, console: Console, interval: float, look: Look) -> None:
        self._source, self._console, self._interval = source, console, interval
        self._heard, self._since = Heard(look, servers(look), patience=MISSED * interval), time.monotonic()
        self._view = View()
        self._keys = Keys()
        self._terminal = Unechoed()
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> int:
        """The exit code. Whatever happens, the terminal is left as it was."""
        with self._listening(), self._terminal, self._live:
            self._draw()
            tasks = [asyncio.create_task(self._keep_looking()), asyncio.create_task(self._keep_ageing())]
            for task in tasks:
                task.add_done_callback(self._ended)
            try:
                return await self._end
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Keys and signals arrive while this is open."""
        loop = asyncio.get_running_loop()
        heard: dict[int, Callable[[], None]] = {
            signal.SIGINT: lambda: self._finish(EXIT_INTERRUPTED),
            signal.SIGTERM: lambda: self._finish(EXIT_TERMINATED),
            signal.SIGWINCH: self._draw,
            signal.SIGTSTP: self._pause,
        }
        with ExitStack() as open_now:
            loop.set_exception_handler(lambda _, broken: self._fail(broken.get("exception") or RuntimeError()))
            open_now.callback(loop.set_exception_handler, None)
            for number, react in heard.items():
                loop.add_signal_handler(number, react)
                open_now.callback(loop.remove_signal_handler, number)
            loop.add_reader(sys.stdin.fileno(), self._typed)
            open_now.callback(loop.remove_reader, sys.stdin.fileno())
            yield

    async def _keep_looking(self) -> None:
        pause = self._interval
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            try:
                look = await self._source.look()
            except SpecwatchError as problem:
                self._heard = replace(self._heard, failure=getattr(problem, "reason", str(problem)))
            else:
                # A sidecar that hangs may still answer, always with the same moment.
                self._since = time.monotonic() if look.at != self._heard.look.at else self._since
                pause = max(self._interval, min(LONGEST_REST, REST * (time.monotonic() - began)))
                patience = MISSED * pause
                self._heard = replace(self._heard, look=look, servers=servers(look), failure=None, patience=patience)
            self._draw()

    async def _keep_ageing(self) -> None:
        while True:
            await asyncio.sleep(AGEING)
            if self._screen().heard.is_stale or self._heard.failure:
                self._draw()

    def _screen(self) -> Screen:
        heard = replace(self._heard, age=time.monotonic() - self._since)
        width, height = (max(1, cells) for cells in os.get_terminal_size(sys.stdout.fileno()))  # some say 0
        return Screen(heard, self._source.name, self._view, width, height)

    def _draw(self) -> None:
        screen = self._screen()
        # Said explicitly: variables such as COLUMNS would else outlive a change of the window.
        self._console.size = os.terminal_size((screen.width, screen.height))
        self._live.update(Group(*screen.lines()), refresh=True)

    def _typed(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 1024)
        except OSError:
            data = b""
        if not data:  # the terminal has gone
            self._finish(0)
            return
        self._press(self._keys.feed(data))
        if self._keys.is_waiting:
            asyncio.get_running_loop().call_later(REST_OF_A_KEY, lambda: self._press(self._keys.end()))

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            if key == "q" and not self._view.is_typing:
                self._finish(0)
                return
            screen = self._screen()
            self._view = pressed(self._view, key, screen.rows, screen.page(), screen.last())
        if keys:
            self._draw()

    def _finish(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()):
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        """A defect: it ends the screen, and is told when the terminal is back."""
        if not self._end.done():
            self._end.set_exception(problem)

    def _pause(self) -> None:
        """Ctrl-Z: give the terminal back until the shell lets this go on."""
        self._live.stop()
        self._terminal.close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.open()
        self._live.start()
        self._draw()
