"""What ``specwatch top`` shows: lines for a terminal of some size, made of figures and of what the reader chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from rich.console import Console
from rich.text import Text

from specwatch.alerting.catalogue import Severity
from specwatch.cli.status_source import Look
from specwatch.cli.status_table import Server, remark, table
from specwatch.cli.status_text import COLOURS, GAP, cut, name, safe
from specwatch.cli.top_server import details, title
from specwatch.cli.top_view import ORDERS, View, arranged, place
from specwatch.sidecar.headline import headline, time_of_day
from specwatch.sidecar.verdict import Tone
from specwatch.signals.findings import duration

MARK = "▸ "

ROOMY = 20
"""Lines from which on there is room for blanks and for what is wrong with the chosen server."""

BANNER_LINES = 2
HEADLINE_LINES = 3
REMARK_LINES = 4

SOURCE_CELLS = 40

FLEET_KEYS = {"↑↓": "choose", "enter": "open", "/": "filter", "r": "reverse", "q": "quit"}
FILTER_KEYS = {"enter": "keep", "esc": "drop"}
SERVER_KEYS = {"↑↓": "scroll", "esc": "back", "q": "quit"}
SORT_KEYS = {key: order.word for key, order in ORDERS.items()}


@dataclass(frozen=True)
class Heard:
    """The last figures, and how the source is heard since."""

    look: Look
    servers: Sequence[Server]
    """Those of the look, the worst first."""
    age: float = 0.0
    """Seconds since there was anything new, by this machine's own clock."""
    failure: str | None = None
    """Why the last question failed."""
    patience: float = 6.0
    """Seconds from which on figures are stale: three questions without news."""

    @property
    def is_stale(self) -> bool:
        """Whether the figures are older than they should be."""
        return self.age > self.patience

    @property
    def time(self) -> str:
        """When the figures were taken."""
        return f"{datetime.fromtimestamp(self.look.at).astimezone():%H:%M:%S}"

    def words(self) -> Text:
        """How it is heard, in short."""
        if self.failure:
            return Text(f"✗ disconnected, {duration(self.age)} old", style="red")
        if self.is_stale:
            return Text(f"◆ stale, {duration(self.age)} old", style="yellow")
        return Text(f"● live {self.time}", style="green")

    def banner(self) -> Text | None:
        """Why the figures are not of now."""
        if self.failure:
            return Text(f"Disconnected: {safe(self.failure)}. The figures are from {self.time}.", style="red")
        if self.is_stale:
            return Text(f"Stale: there is nothing new. The figures are from {self.time}.", style="yellow")
        return None


@dataclass(frozen=True)
class Screen:
    """One moment to draw."""

    heard: Heard
    source: str
    view: View
    width: int
    height: int

    @cached_property
    def rows(self) -> list[Server]:
        """The servers in the order chosen."""
        return arranged(self.heard.servers, self.view)

    def lines(self) -> list[Text]:
        """At most as many lines as the terminal has, none of them wider than it."""
        made = self._server() if self._opened() else self._fleet()
        for line in made:
            line.truncate(self.width)
            if self.heard.is_stale or self.heard.failure:
                line.stylize("dim")
        return [*self._top(), *made][: self.height]

    def page(self) -> int:
        """How many lines a page turns."""
        return max(1, self.height - 8)

    def last(self) -> int:
        """The farthest that the open server scrolls."""
        opened = self._opened()
        return max(0, len(self._details(opened)) - self._body()) if opened else 0

    def _opened(self) -> Server | None:
        return next((row for row in self.rows if self.view.is_open and row.view.target.name == self.view.chosen), None)

    def _top(self) -> list[Text]:
        heard = self.heard.words()
        left = Text.assemble(("specwatch top", "bold"), f" · {name(self.source, SOURCE_CELLS)}")
        left.truncate(max(self.width - heard.cell_len - len(GAP), 1))
        line = left + Text(" " * max(1, self.width - left.cell_len - heard.cell_len)) + heard
        line.truncate(self.width)
        banner = self.heard.banner()
        return [line, *(_wrapped(banner, self.width, BANNER_LINES) if banner else [])]

    def _fleet(self) -> list[Text]:
        rows = self.rows
        head, foot = self._head(), self._foot(rows)
        body = max(1, self.height - len(self._top()) - 2 - len(head) - len(foot))
        at = place(rows, self.view)
        first = max(0, min(at - body // 2, len(rows) - body))
        shown = table(rows, self.width - len(MARK), slice(first, first + body))
        lines = [Text(" " * len(MARK)) + shown.head] if rows else []
        lines += [self._marked(line, first + offset == at) for offset, line in enumerate(shown.lines)]
        blank = [Text()] * max(0, body + bool(rows) - len(lines))
        return [*head, *lines, self._count(len(rows), first, body), *blank, *foot]

    def _count(self, servers: int, first: int, body: int) -> Text:
        """Which lines are seen, and in which order."""
        last = min(first + body, servers)
        seen = f"{first + 1}–{last} of " if last - first < servers else ""
        holding = f" with “{self.view.wanted}”" if self.view.wanted else ""
        words = f"{seen}{servers} server{'s' * (servers != 1)}{holding}, {self.view.order_words}"
        return Text(f"{' ' * len(MARK)}{words}", style="dim")

    def _marked(self, line: Text, is_chosen: bool) -> Text:
        if not is_chosen:
            return Text(" " * len(MARK)) + line
        # Without colours of its own: turned round, they would be a patchwork of backgrounds.
        marked = Text(MARK + line.plain, style="reverse")
        marked.pad_right(max(0, self.width - marked.cell_len))
        return marked

    def _head(self) -> list[Text]:
        sentence = headline([row.judged for row in self.heard.servers], self.heard.look.at)
        told = Text(safe(sentence), style="bold")
        lines = _wrapped(told, self.width, HEADLINE_LINES if self.height >= ROOMY else 1)
        lines += [self._alerts(self.heard.servers)] if self.heard.servers else []
        return [*lines, Text()] if self.height >= ROOMY else lines

    def _alerts(self, rows: Sequence[Server]) -> Text:
        """How many fire, and the one that was first to."""
        if self.heard.look.alerts is None:
            return Text(self.heard.look.without_alerts, style="dim")
        firing = [alert for row in rows for alert in row.firing]
        pending = sum(len(row.pending) for row in rows)
        if not firing:
            return Text(f"no alert fires, {pending} pending" if pending else "no alert fires", style="dim")
        first = min(firing, key=lambda alert: (alert.severity, alert.since))  # a page before a ticket
        style = COLOURS[Tone.BAD if first.severity == Severity.PAGE.value else Tone.WARN]
        since = f"{first.severity} since {time_of_day(first.since, self.heard.look.at)}"
        waiting = f", {pending} pending" if pending else ""
        words = f"{len(firing)} firing{waiting} · {since}: {first.summary}"
        return Text(cut(words, self.width), style=style)

    def _foot(self, rows: Sequence[Server]) -> list[Text]:
        keys = _hints(FLEET_KEYS)
        if self.view.is_typing:
            keys = Text.assemble(("filter: ", "dim"), self.view.wanted, ("▏ ", "bold"), _hints(FILTER_KEYS))
        if self.height < ROOMY:
            return [keys]
        sort = Text.assemble(("sort by ", "dim"), _hints(SORT_KEYS))
        return [*self._remark(rows), keys, sort]

    def _remark(self, rows: Sequence[Server]) -> list[Text]:
        """What is wrong with the chosen server; always as many lines, so that nothing jumps while one chooses."""
        lines: list[Text] = []
        if rows:
            row = rows[place(rows, self.view)]
            finding = remark(row.view) or next(iter(row.view.findings), None)
            said = f"{finding.text} {finding.remedy}" if finding else "nothing to say"
            told = f"{name(row.view.target.name, SOURCE_CELLS)}: {said}"
            lines = _wrapped(Text(cut(told, self.width * REMARK_LINES)), self.width, REMARK_LINES)
        return [Text(), *lines, *[Text()] * (REMARK_LINES - len(lines)), Text()]

    def _server(self) -> list[Text]:
        opened = self._opened()
        if opened is None:
            return []
        lines = self._details(opened)
        body = self._body()
        scrolled = min(self.view.scrolled, self.last())
        below = len(lines) - scrolled - body
        more = f"    {below} more line{'s' * (below != 1)} below" if below > 0 else ""
        shown = lines[scrolled : scrolled + body]
        blank = [Text()] * (body - len(shown) + 1)
        return [title(opened), *shown, *blank, Text.assemble(_hints(SERVER_KEYS), (more, "dim"))]

    def _body(self) -> int:
        return max(1, self.height - len(self._top()) - 3)

    def _details(self, server: Server) -> list[Text]:
        return details(server, self.heard.look.at, self.width)


def _wrapped(text: Text, width: int, most: int) -> list[Text]:
    """At most so many lines of a text; an ellipsis shows that something is missing."""
    lines = list(text.wrap(Console(width=width), width, overflow="fold"))
    if len(lines) > most:
        lines = lines[:most]
        lines[-1] = Text(cut(f"{lines[-1].plain.rstrip()} …", width), style=text.style)
    return lines


def _hints(keys: Mapping[str, str]) -> Text:
    """What keys do."""
    hints = [Text.assemble((key, "bold"), (f" {word}", "dim")) for key, word in keys.items()]
    return Text(GAP).join(hints)
