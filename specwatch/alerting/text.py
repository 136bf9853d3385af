"""Text for people from values that nobody vouches for: cleaned, and cut to a length."""

from __future__ import annotations

import unicodedata

_UNSHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories that forge lines and terminal commands, or that are not valid in UTF-8 at all: control
characters, lone surrogates, line and paragraph separators."""

_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the writing direction, and so can make a text read as another."""


def clean(text: str) -> str:
    """The text on one line: every character that is not meant to be seen becomes a space."""
    return "".join(" " if _is_unshown(character) else character for character in text)


def cut(text: str, limit: int) -> str:
    """The text in at most ``limit`` characters; an ellipsis shows that something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def duration(seconds: float) -> str:
    """A length of time in its two largest units: ``40 s``, ``12 min``, ``1 h 5 min``, ``2 d 3 h``."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    parts = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min")]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2])


def _is_unshown(character: str) -> bool:
    return unicodedata.category(character) in _UNSHOWN or character in _DIRECTION
