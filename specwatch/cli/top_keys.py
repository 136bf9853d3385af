"""Keys as they are pressed: the terminal without echo and lines, and bytes into names of keys."""

from __future__ import annotations

import re
import sys
import termios
import tty
from contextlib import suppress
from typing import Any

NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x0c": "redraw",
}
"""What terminals send (xterm's control sequences, also in application mode, and Linux's). Ctrl-L redraws."""

_ONE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b(?![\[O])|[^\x1b]", re.DOTALL)
"""A key: a control sequence (ECMA-48, 5.4), one of application mode, an escape alone, a byte."""

_BEGUN = re.compile(rb"\x1b(\[[0-?]*[ -/]*|O)?\Z")
"""The first bytes of a sequence whose rest may still come: over ssh it can arrive in two pieces."""


class Keys:
    """Makes keys of what the terminal sends."""

    def __init__(self) -> None:
        self._begun = b""

    @property
    def is_waiting(self) -> bool:
        """Whether a sequence has begun; ``end`` it when nothing more has come for a moment."""
        return bool(self._begun)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete by now: names, or printable characters of ASCII; others are left out."""
        data = self._begun + data
        begun = _BEGUN.search(data)
        self._begun = begun.group() if begun else b""
        return _named(data[: len(data) - len(self._begun)])

    def end(self) -> list[str]:
        """What had begun is all there was: an escape alone is a key."""
        begun, self._begun = self._begun, b""
        return ["escape"] if begun == b"\x1b" else []


def _named(data: bytes) -> list[str]:
    keys = (match.group() for match in _ONE.finditer(data))
    named = (NAMES.get(key) or (chr(key[0]) if len(key) == 1 and 0x20 <= key[0] < 0x7F else None) for key in keys)
    return [key for key in named if key]


class Unechoed:
    """The terminal while keys arrive one by one and do not show; Ctrl-C and Ctrl-Z stay signals."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Unechoed:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Begin."""
        self._before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin, termios.TCSANOW)

    def close(self) -> None:
        """Leave all as it was before; what was typed and not read is no command for the shell."""
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, self._before or termios.tcgetattr(sys.stdin))
