"""What rule files, Alertmanager configurations and dashboards hold: expressions and texts with their places."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from specwatch.lint.documents import Scalar, Text
from specwatch.lint.expressions import Expression


class Kind(Enum):
    """What a document is."""

    RULES = "Prometheus rules"
    ALERTMANAGER = "Alertmanager configuration"
    DASHBOARD = "Grafana dashboard"
    NOT_CHECKED = "belongs to them, and holds nothing to check"


@dataclass(frozen=True)
class Query:
    """One expression where it stands."""

    scalar: Scalar
    """The value that holds it."""
    offset: int
    """Where in that value it begins."""
    expression: Expression
    path: str
    """Which rule or panel it belongs to, in words."""
    legend: Scalar | None = None
    """A dashboard's text that names labels of the result."""
    only_labels: bool = False
    """Whether it is asked for its labels, not for its values."""


@dataclass(frozen=True)
class Rule:
    """A recording or alerting rule."""

    name: str
    is_alert: bool
    group: str
    query: Query
    labels: tuple[tuple[str, Scalar], ...]
    annotations: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Inhibition:
    """One of Alertmanager's inhibit_rules: matchers of alertname as operator and value, and what has to be equal."""

    source: tuple[tuple[str, str], ...]
    target: tuple[tuple[str, str], ...]
    equal: tuple[Scalar, ...]
    path: str


@dataclass(frozen=True)
class Panel:
    """A panel of a dashboard, with what people see of it beside its values."""

    title: Scalar
    kind: str
    """Grafana's type: timeseries, stat and so on."""
    path: str
    group: int
    """Panels of one group share a grid: those of the dashboard, or of one row that is closed."""
    id: str
    place: tuple[float, float, float, float] | None
    """Left, top, width and height in the grid."""
    source: Scalar | None
    """The data source that it names."""
    has_unit: bool
    is_described: bool
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Source:
    """What one file holds, or one file within a ConfigMap."""

    file: str
    text: Text
    kinds: frozenset[Kind]
    rules: tuple[Rule, ...] = ()
    queries: tuple[Query, ...] = ()
    """Those that belong to no rule."""
    inhibitions: tuple[Inhibition, ...] = ()
    panels: tuple[Panel, ...] = ()
    mentions: tuple[Scalar, ...] = ()
    """Values of an Alertmanager configuration that speak of vLLM."""
    within: str = ""
    """The ConfigMap's entry, "" for the file itself."""
    first_line: int = 1
    """The file's line that the text's first line is; an entry that is not written line by line stands on one."""
    by_line: bool = True

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column in the file."""
        line, column = self.text.place(offset)
        return (self.first_line + line - 1, column) if self.by_line else (self.first_line, 1)
