"""A real terminal for tests: tmux, a shell in it, keys in and what is seen out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.programs import ROOT
from tests.support.services import tmux

PATIENCE = 60.0
"""Seconds until what must appear counts as missing: a command line takes a second to start, on a busy machine many."""

PROMPT = "ready> "

SPECWATCH = f"{sys.executable} -m specwatch"
"""The command, however it is installed."""


class Terminal:
    """One window. Names of keys are tmux's: ``Down``, ``Enter``, ``C-c``."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def run(self, command: str) -> None:
        """Type a command line and press Enter."""
        await self._tmux("send-keys", "-l", command)
        await self.press("Enter")

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self._tmux("send-keys", *keys)

    async def resize(self, width: int, height: int) -> None:
        """Change the window's size."""
        await self._tmux("resize-window", "-x", str(width), "-y", str(height))

    async def screen(self, *, styled: bool = False) -> str:
        """What is seen; with its escape codes when ``styled``."""
        return await self._tmux("capture-pane", "-p", *(["-e"] if styled else []))

    async def history(self) -> str:
        """What is seen, and everything that was scrolled away."""
        return await self._tmux("capture-pane", "-p", "-S", "-1000")

    async def until(self, seen: Callable[[str], object]) -> str:
        """The screen once ``seen`` is true of it; AssertionError with the screen where that does not come."""
        for _ in range(round(PATIENCE / 0.1)):
            screen = await self.screen()
            if seen(screen):
                return screen
            await asyncio.sleep(0.1)
        raise AssertionError(f"this is all that was seen:\n{screen}")

    async def shows(self, *texts: str) -> str:
        """The screen once it has all the texts."""
        return await self.until(lambda screen: all(text in screen for text in texts))

    async def open(self, width: int, height: int) -> None:
        """Start."""
        size = ("-x", str(width), "-y", str(height))
        shell = f"env -u NO_COLOR -u COLUMNS LC_ALL=C.UTF-8 PS1='{PROMPT}' bash --norc --noprofile"
        await self._tmux("-f", "/dev/null", "-u", "new-session", "-d", *size, shell)
        await self.shows(PROMPT.strip())

    async def close(self) -> None:
        """End everything in it."""
        await self._tmux("kill-server")

    async def _tmux(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(tmux(), "-S", self._socket, *words),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return output.decode()


@asynccontextmanager
async def terminal(folder: Path, width: int = 80, height: int = 24) -> AsyncIterator[Terminal]:
    """A terminal of that size, its socket in ``folder``."""
    opened = Terminal(folder / "tmux")
    await opened.open(width, height)
    try:
        yield opened
    finally:
        await opened.close()
