"""What the reader of ``specwatch top`` chose to see, and what a key changes about it. No terminal here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specwatch.cli.status_table import Server
from specwatch.sidecar.verdict import by_name, speedup_of
from specwatch.sidecar.views import number


@dataclass(frozen=True)
class Order:
    """One way to sort."""

    word: str
    """What the key's hint says."""
    words: str
    backwards: str
    key: Callable[[Server], Any]
    """None for a server that has no such figure: it comes last either way."""
    descending: bool = False


def _signal(name: str) -> Callable[[Server], float | None]:
    return lambda server: number(server.view.headline.values, name)


ORDERS: Mapping[str, Order] = {
    "w": Order("worst", "worst first", "best first", lambda server: 0),
    "n": Order("name", "by name", "by name, backwards", lambda server: by_name(server.view.target.name)),
    "s": Order("speedup", "lowest speedup first", "highest speedup first", lambda server: speedup_of(server.view)[0]),
    "a": Order("acceptance", "lowest acceptance first", "highest acceptance first", _signal("acceptance_rate")),
    "d": Order("drift", "most drift first", "least drift first", lambda server: server.view.drift.score, True),
    "b": Order("batch", "largest batch first", "smallest batch first", _signal("running_requests"), True),
    "t": Order("tokens/s", "most tokens/s first", "fewest tokens/s first", _signal("generation_throughput"), True),
}
"""By the key that chooses it."""

STEPS: Mapping[str, int] = {"up": -1, "k": -1, "down": 1, "j": 1}
PAGES: Mapping[str, int] = {"pageup": -1, "pagedown": 1, " ": 1}
EDGES: Mapping[str, int] = {"home": 0, "g": 0, "end": -1, "G": -1}
OPENING = ("enter", "right", "l")
LONGEST_FILTER = 60

LEAVING = ("escape", "backspace", "left", "h")


@dataclass(frozen=True)
class View:
    """What is shown."""

    order: str = "w"
    is_backwards: bool = False
    chosen: str | None = None
    """Name of the server that is marked; the first while it is None or gone."""
    is_open: bool = False
    """Whether the chosen server alone is shown."""
    scrolled: int = 0
    """Lines of the open server above the screen."""
    wanted: str = ""
    """Only servers are shown whose name, model or state holds this."""
    is_typing: bool = False
    """Whether keys are letters of ``wanted``."""

    @property
    def order_words(self) -> str:
        """How the table is sorted."""
        order = ORDERS[self.order]
        return order.backwards if self.is_backwards else order.words


def arranged(servers: Sequence[Server], view: View) -> list[Server]:
    """The servers that are wanted, given worst first, in the order chosen; those without the figure last."""
    rows = [server for server in servers if _is_wanted(server, view.wanted.casefold())]
    order = ORDERS[view.order]
    known = [row for row in rows if order.key(row) is not None]
    # A stable sort keeps equals worst first; backwards turns them round too, so that the best comes first.
    found = sorted(known, key=order.key, reverse=order.descending)
    return [*(reversed(found) if view.is_backwards else found), *(row for row in rows if order.key(row) is None)]


def _is_wanted(server: Server, wanted: str) -> bool:
    texts = (server.view.target.name, server.view.model_name or "", server.judged.words.word)
    return any(wanted in text.casefold() for text in texts)


def place(rows: Sequence[Server], view: View) -> int:
    """Where the chosen server stands among ``rows``."""
    names = [row.view.target.name for row in rows]
    return names.index(view.chosen) if view.chosen in names else 0


def pressed(view: View, key: str, rows: Sequence[Server], page: int, last: int) -> View:
    """The view after a key.

    ``rows`` are as shown, ``page`` is how many lines a page turns, ``last`` the farthest that the open server scrolls.
    """
    if view.is_typing:
        return _typed(view, key)
    if view.is_open and any(row.view.target.name == view.chosen for row in rows):
        if key in LEAVING:
            return replace(view, is_open=False, scrolled=0)
        return replace(view, scrolled=_moved(view.scrolled, key, page, last))
    if key in ORDERS:
        return replace(view, order=key, is_backwards=False)
    if key == "r":
        return replace(view, is_backwards=not view.is_backwards)
    if key in ("/", "escape"):
        return replace(view, wanted="", is_typing=key == "/")
    if not rows:
        return view
    at = _moved(place(rows, view), key, page, len(rows) - 1)
    return replace(view, chosen=rows[at].view.target.name, is_open=key in OPENING)


def _typed(view: View, key: str) -> View:
    """The view after a key while the filter is typed: Enter keeps it, Escape drops it."""
    if key in ("enter", "escape"):
        return replace(view, is_typing=False, wanted=view.wanted if key == "enter" else "")
    if key == "backspace":
        return replace(view, wanted=view.wanted[:-1])
    return replace(view, wanted=view.wanted + key) if len(key) == 1 and len(view.wanted) < LONGEST_FILTER else view


def _moved(at: int, key: str, page: int, last: int) -> int:
    if key in EDGES:
        return EDGES[key] % (last + 1)
    return max(0, min(last, at + STEPS.get(key, 0) + PAGES.get(key, 0) * page))
