"""Which of a list of names a regular expression takes, in a time that no expression can stretch.

Patterns come from strangers' files, and Python's matcher can be made to try forever. This one follows all positions
at once, so that its time grows with the pattern times the name. It knows what people write to match metric names:
characters, ``.``, classes, groups, ``|``, ``?``, and single characters with ``*`` or ``+``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

LONGEST = 500
"""Characters of a pattern that is tried."""
DEEPEST = 20
"""Groups in one another."""

Positions = frozenset[int]
Step = Callable[[str, Positions], Positions]
"""From the positions in a name where a part may begin to those where it may end."""

_PIECE = re.compile(r"\\.|\[\^?\]?[^\]]*\]|\(\?:|.", re.DOTALL)
_PLAIN = re.compile(r"\\[.\-:\\/|*+?()\[\]]|[\w:.\-]")


class _Unknown(Exception):
    """The pattern holds what is not tried here."""


def matching(pattern: str, names: Iterable[str]) -> set[str] | None:
    """The names that the whole pattern takes, as Prometheus anchors it; None for a pattern that is not tried."""
    if len(pattern) > LONGEST:
        return None
    try:
        step = _Reader(_PIECE.findall(pattern.removeprefix("^").removesuffix("$"))).read()
    except _Unknown:
        return None
    return {name for name in names if len(name) in step(name, frozenset({0}))}


@dataclass
class _Reader:
    """Makes steps of a pattern's pieces."""

    pieces: list[str]
    at: int = 0
    depth: int = 0

    def read(self) -> Step:
        step = self._alternatives()
        if self.at < len(self.pieces):
            raise _Unknown
        return step

    def _alternatives(self) -> Step:
        steps = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            steps.append(self._sequence())
        return lambda name, where: frozenset().union(*(step(name, where) for step in steps))

    def _sequence(self) -> Step:
        steps = list(self._parts())

        def follow(name: str, where: Positions) -> Positions:
            for step in steps:
                where = step(name, where)
            return where

        return follow

    def _parts(self) -> Iterator[Step]:
        while self._next() not in ("", "|", ")"):
            step = self._atom()
            if self._next() in ("*", "+", "?"):
                if self.pieces[self.at - 1] == ")" and self._next() != "?":
                    raise _Unknown  # repetitions in one another multiply
                step = _repeated(step, self._next())
                self.at += 1
            yield step

    def _atom(self) -> Step:
        piece = self._next()
        self.at += 1
        if piece in ("(", "(?:"):
            return self._group()
        if piece[0] != "[" and not _PLAIN.fullmatch(piece):
            raise _Unknown
        try:
            one = re.compile(piece)
        except re.error:
            raise _Unknown from None
        return lambda name, where: frozenset(at + 1 for at in where if at < len(name) and one.fullmatch(name[at]))

    def _group(self) -> Step:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Unknown
        step = self._alternatives()
        if self._next() != ")":
            raise _Unknown
        self.at += 1
        self.depth -= 1
        return step

    def _next(self) -> str:
        return self.pieces[self.at] if self.at < len(self.pieces) else ""


def _repeated(step: Step, how: str) -> Step:
    def follow(name: str, where: Positions) -> Positions:
        once = step(name, where)
        if how == "?":
            return where | once
        reached, new = once, once
        while new:
            new = step(name, new) - reached
            reached |= new
        return reached if how == "+" else where | reached

    return follow
