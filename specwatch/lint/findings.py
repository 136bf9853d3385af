"""What can be found: the codes, which never change their meaning, and a finding with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How sure it is that something is wrong."""

    ERROR = "error"
    """It cannot do what it is there for."""
    WARNING = "warning"
    """It misleads, or it works only as long as nothing goes wrong."""
    NOTE = "note"
    """Worth knowing; no reason to fail a build."""


@dataclass(frozen=True)
class Code:
    """One kind of mistake."""

    id: str
    name: str
    level: Level
    title: str
    why: str
    """What goes wrong because of it."""


GONE = Code(
    "SW001",
    "gone-metric",
    Level.ERROR,
    "The metric left vLLM before this release",
    "Without a series there is no value: the panel stays empty, and the alert can never fire. This happens on an "
    "upgrade, and nothing tells.",
)
COMING = Code(
    "SW002",
    "future-metric",
    Level.ERROR,
    "The metric comes with a later release",
    "On this release there is no such series: the panel stays empty, and the alert can never fire.",
)
UNKNOWN = Code(
    "SW003",
    "unknown-metric",
    Level.ERROR,
    "No release of vLLM has a metric of this name",
    "A name that was misread or made up has no series. A recording rule may make one: lint its file along.",
)
NO_TOTAL = Code(
    "SW004",
    "missing-total",
    Level.ERROR,
    "The counter is exposed with _total behind its name",
    "vLLM's sources and many lists of metrics leave _total out; the Python client adds it on the page.",
)
NO_SUFFIX = Code(
    "SW005",
    "bare-histogram",
    Level.ERROR,
    "The name is a histogram's, which has _bucket, _sum and _count",
    "Under a histogram's own name there is no series, except where Prometheus makes native histograms of classic ones.",
)
MANGLED = Code(
    "SW006",
    "mangled-name",
    Level.ERROR,
    "The name begins with vllm_ where vLLM has vllm:",
    "vLLM exposes the colon. Where series with an underscore are stored, an exporter on the way changed them, and its "
    "next release may not.",
)
CREATED = Code(
    "SW007",
    "created-by-pattern",
    Level.ERROR,
    "The pattern takes the _created samples in",
    "Beside every counter and histogram vLLM exposes the time at which it began, in seconds since 1970: sums and rates "
    "that take it in are meaningless.",
)
ONE_ENGINE = Code(
    "SW008",
    "old-engine-only",
    Level.NOTE,
    "Of this release's two engines, only V0 has the metric",
    "Releases 0.8.0 to 0.10.2 run V1, or V0 by model, method and VLLM_USE_V1; a server on V1 has no such series.",
)
CORRUPT = Code(
    "SW101",
    "corrupt-counter",
    Level.ERROR,
    "The rate of a counter that the V0 engine corrupts",
    "V0 adds the total since start to it again at every interval, so that its rate is none.",
)
RATE_OF_GAUGE = Code(
    "SW102",
    "rate-of-gauge",
    Level.ERROR,
    "The rate of a gauge",
    "rate() takes every fall for a restart and counts it as a rise: the result is positive and means nothing.",
)
MEAN_OF_RATIOS = Code(
    "SW103",
    "mean-of-ratios",
    Level.WARNING,
    "A mean of ratios",
    "An idle server counts as much as a busy one, and a quiet minute as much as a full one. A hundred draft tokens at "
    "90 % and ten thousand at 20 % are 21 % in truth, and 55 % as a mean.",
)
LIFETIME = Code(
    "SW104",
    "lifetime-ratio",
    Level.WARNING,
    "A ratio of counters since the server's start",
    "After a healthy day, a collapse today takes a day or two to show.",
)
LOST_LABEL = Code(
    "SW201",
    "lost-label",
    Level.ERROR,
    "A text or an inhibition uses a label that the expression aggregated away",
    "It renders empty, so nobody learns which server is meant; in an inhibition it never equals anything.",
)
BLIND_TO_K = Code(
    "SW202",
    "blind-to-k",
    Level.NOTE,
    "A fixed threshold on the acceptance rate says nothing of what speculation gains",
    "An acceptance rate of 0.60 is a probability of 0.60 per token at K = 1, and of 0.87 at K = 7. All twelve "
    "configurations that Leviathan et al. published, 1.4 to 3.4 times faster, lie between 0.22 and 0.56.",
)
SILENT_COUNT = Code(
    "SW203",
    "silent-count",
    Level.ERROR,
    "A count below a limit, which is silent when nothing is left to count",
    "count() of nothing is nothing, not 0: the alert ends exactly when the last server does.",
)
NO_ABSENT = Code(
    "SW204",
    "no-absent-alert",
    Level.WARNING,
    "Targets are watched, and nothing tells when there are none",
    "up has no series once service discovery loses a target, so an alert on its value falls silent.",
)
DEAD_LINK = Code(
    "SW205",
    "dead-runbook",
    Level.WARNING,
    "The runbook cannot be found",
    "Whoever is woken gets a link that leads nowhere. Files and headings beside the rules are looked up; nothing is "
    "fetched.",
)
PERCENT = Code(
    "SW206",
    "percent-of-ratio",
    Level.ERROR,
    "A ratio from 0 to 1 is compared with a percentage",
    "Whatever happens, the comparison comes out the same: the alert never fires, or always does.",
)
SHARED_ID = Code(
    "SW301",
    "shared-panel-id",
    Level.ERROR,
    "Two panels of a dashboard have one id",
    "Links to a panel, its full view and what embeds it name the id: they open the other one.",
)
OVERLAP = Code(
    "SW302",
    "overlapping-panels",
    Level.WARNING,
    "Two panels lie over one another",
    "Grafana moves one of them away, and not always the same one: the dashboard looks different from what was meant.",
)
FIXED_SOURCE = Code(
    "SW303",
    "fixed-data-source",
    Level.NOTE,
    "The panel asks a data source that one Grafana alone has",
    "In any other Grafana, and after the data source was made anew, the panel finds nothing.",
)
NO_UNIT = Code(
    "SW304",
    "missing-unit",
    Level.NOTE,
    "The values have no unit",
    "Seconds look like milliseconds, and 0.6 like a share of one per cent.",
)
NO_DESCRIPTION = Code(
    "SW305",
    "missing-description",
    Level.NOTE,
    "Nothing says what the panel is for",
    "Whoever is woken sees a line and does not know what it means, or what to do about it.",
)
NO_LEGEND = Code(
    "SW306",
    "missing-legend",
    Level.NOTE,
    "Series are called by all of their labels",
    "vLLM's series have long labels that are alike: which line is which server cannot be read.",
)
MANY_QUERIES = Code(
    "SW307",
    "many-queries",
    Level.NOTE,
    "The panel asks more queries than a reader tells apart",
    "Each of them is answered at every refresh, for everybody who looks.",
)
NOT_PARSED = Code(
    "SW901",
    "not-parsed",
    Level.NOTE,
    "The expression is no PromQL that is known here",
    "Only the names in it were looked at. An engine with functions of its own may take it, Prometheus may not.",
)

CODES = (
    GONE,
    COMING,
    UNKNOWN,
    NO_TOTAL,
    NO_SUFFIX,
    MANGLED,
    CREATED,
    ONE_ENGINE,
    CORRUPT,
    RATE_OF_GAUGE,
    MEAN_OF_RATIOS,
    LIFETIME,
    LOST_LABEL,
    BLIND_TO_K,
    SILENT_COUNT,
    NO_ABSENT,
    DEAD_LINK,
    PERCENT,
    SHARED_ID,
    OVERLAP,
    FIXED_SOURCE,
    NO_UNIT,
    NO_DESCRIPTION,
    NO_LEGEND,
    MANY_QUERIES,
    NOT_PARSED,
)


@dataclass(frozen=True)
class Fix:
    """Characters of a file that are replaced by others."""

    start: int
    end: int
    old: str
    new: str


@dataclass(frozen=True)
class Finding:
    """One mistake, where it is, and what to write instead."""

    code: Code
    file: str
    line: int
    column: int
    path: str
    """The rule or panel, "" where there is none."""
    message: str
    instead: str
    fixes: tuple[Fix, ...] = ()
    """What --fix replaces; empty where a person has to decide."""
