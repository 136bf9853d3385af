"""The dashboard ``specwatch: speculation``: what speculation is worth on each server, and why.

It reads vLLM's own counters, so it needs no recording rules; drift comes from the sidecar, alerts from whoever
evaluates them. Values come from the signal catalogue, thresholds from the alert catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specwatch.alerting.catalogue import Severity, alert
from specwatch.generate import grafana, grafana_dashboard
from specwatch.generate.dashboard_words import (
    ALERTS_FIRING,
    DRIFT,
    HEADLINE,
    SERVERS,
    TRENDS,
    acceptance_words,
    speedup_words,
)
from specwatch.generate.grafana import (
    BAD,
    GOOD,
    HIGHEST,
    LOWEST,
    NARROW,
    NEUTRAL,
    OUTPUT,
    SHARE,
    WARN,
    WIDE,
    Column,
    Query,
    Scale,
    Words,
)
from specwatch.generate.grafana_dashboard import Line, Section
from specwatch.generate.live_promql import FLEET, SERVER, Live
from specwatch.signals.catalogue import signals
from specwatch.signals.speedup import ASSUMED, DraftCost
from specwatch.vllm.metrics import GAUGES, SERIES, Counter

UID = "specwatch-speculation"
FILE = f"{UID}.json"
PROVISIONING = "provisioning/dashboards.yml"

SELECTOR = 'job=~"$job", model_name=~"$model_name", instance=~"$instance", engine=~"$engine"'
"""Variables are called like the labels they choose, so that an alert's link can set them from its own labels."""

WINDOW = "$__rate_interval"
"""Grafana's own: as long as a point on the screen stands for, and never too short for a rate."""

EVERY_SERVER = GAUGES[Counter.RUNNING_SECONDS]
"""A series that every vLLM with statistics has, whether it speculates or not: the variables list its labels."""

SPEEDUP = "Estimated speedup, at most"
"""What the estimate is called wherever it stands: without a measurement it is an upper bound."""

SERVER_LEGEND = "{{instance}} {{model_name}}"

LOOK_BACK = "1h"
"""How long a server may be away and still be seen as restarted: the last count before is looked up over this."""

TOKENS = Scale("suffix:tokens", decimals=2)
RATE = Scale("suffix:tokens/s")
TIMES = Scale("suffix:×", decimals=2)
REQUESTS = Scale("suffix:requests", decimals=1)
SECONDS = Scale("s")


@dataclass(frozen=True)
class Settings:
    """What a user may choose."""

    job: str | None = None
    """The job that is selected at first; all of them without it."""
    prefix: str = ""
    """Put before the title."""
    tags: tuple[str, ...] = ()
    cost: DraftCost = field(default=ASSUMED)


def dashboard_files(settings: Settings | None = None) -> dict[str, str]:
    """Texts of the dashboard and of Grafana's provisioning file, by path below the output folder."""
    chosen = settings or Settings()
    return {FILE: grafana_dashboard.text(speculation(chosen)), PROVISIONING: _PROVISIONING_TEXT}


def speculation(settings: Settings) -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    panels = _Panels(Live(SELECTOR, WINDOW), settings.cost)
    return grafana_dashboard.Dashboard(
        uid=UID,
        title=f"{settings.prefix}specwatch: speculation",
        description="What speculative decoding is worth on vLLM servers, where it is not, and why.",
        tags=("specwatch", "vllm", "speculative-decoding", *settings.tags),
        variables=_variables(settings.job),
        annotations=(panels.restarts(),),
        sections=(
            panels.headline(),
            panels.servers(),
            panels.acceptance(),
            panels.drafting(),
            panels.serving(),
            panels.drift(),
        ),
    ).json()


def _variables(job: str | None) -> tuple[Any, ...]:
    def of(*labels: str) -> str:
        chosen = ", ".join(f'{label}=~"${label}"' for label in labels)
        return f"{EVERY_SERVER}{{{chosen}}}" if chosen else EVERY_SERVER

    return (
        grafana_dashboard.datasource_variable(),
        grafana_dashboard.label_variable("job", "Job", of(), job),
        grafana_dashboard.label_variable("model_name", "Model", of("job")),
        grafana_dashboard.label_variable("instance", "Server", of("job", "model_name")),
        grafana_dashboard.label_variable("engine", "Engine", of("job", "model_name", "instance")),
    )


class _Panels:
    """The dashboard's sections, over one set of expressions and one draft cost."""

    def __init__(self, live: Live, cost: DraftCost) -> None:
        self._live = live
        self._cost = cost
        self._signals = {signal.name: signal for signal in signals(cost)}
        self._low = alert("SpeculativeAcceptanceRateLow").threshold
        self._loss = alert("SpeculationSlowerThanNone").threshold
        self._idle = alert("SpeculationNotDrafting").threshold

    def headline(self) -> Section:
        """Six figures for all that is selected."""
        panels = (
            grafana.stat(
                HEADLINE["acceptance_rate"], self._all("acceptance_rate"), SHARE, grafana.bad_below(self._low)
            ),
            grafana.stat(HEADLINE["acceptance_length"], self._all("acceptance_length"), TOKENS),
            grafana.stat(
                self._speedup_words(SPEEDUP),
                self._all("estimated_speedup"),
                TIMES,
                grafana.bad_below(self._loss),
            ),
            grafana.stat(HEADLINE["draft_coverage"], self._all("draft_coverage"), SHARE, grafana.bad_below(self._idle)),
            grafana.stat(HEADLINE["running_requests"], self._all("running_requests"), REQUESTS),
            grafana.stat(HEADLINE["generation_throughput"], self._all("generation_throughput"), RATE),
        )
        return Section("Is speculation paying?", (Line(5, panels),))

    def servers(self) -> Section:
        """Every server in a table, and what is firing."""
        link = f"/d/{UID}?${{__url_time_range}}&${{datasource:queryparam}}&var-instance=${{__value.raw}}"
        names = (
            grafana.Name("Server", "instance", link=link),
            grafana.Name("Model", "model_name"),
            grafana.Name("Job", "job", NARROW),
        )
        table = grafana.server_table(SERVERS, names, self._columns(), worst_first=SPEEDUP)
        return Section("Where is it worst, and what is firing?", (Line(9, (table,)), Line(6, (self._alerts(),))))

    def _columns(self) -> tuple[Column, ...]:
        def column(title: str, name: str, scale: Scale, alarm: float | None = None, width: int = NARROW) -> Column:
            steps = None if alarm is None else grafana.bad_below(alarm)
            return Column(title, self._each(name).expr, scale, steps, width)

        return (
            column(SPEEDUP, "estimated_speedup", TIMES, self._loss, WIDE),
            column("Acceptance", "acceptance_rate", SHARE, self._low),
            column("Length", "acceptance_length", TOKENS),
            column("Mean K", "draft_length", TOKENS),
            column("Coverage", "draft_coverage", SHARE, self._idle),
            column("Batch", "running_requests", REQUESTS),
            column("Generated", "generation_throughput", RATE),
            column("Mean TPOT", "tpot", SECONDS),
        )

    def _alerts(self) -> Any:
        def firing(severity: Severity) -> str:
            # The empty alternative keeps alerts that are about no single server, such as all of them gone.
            matchers = f'alertstate="firing", severity="{severity.value}", instance=~"$instance|"'
            return f'max by (alertname, instance) (ALERTS{{alertname=~"Spec.*", {matchers}}})'

        return grafana.states(
            ALERTS_FIRING,
            [
                Query(f"{value} * {firing(severity)}", "{{alertname}} {{instance}}")
                for severity, (value, _) in _SEVERITIES.items()
            ],
            {value: (severity.value, colour) for severity, (value, colour) in _SEVERITIES.items()},
        )

    def acceptance(self) -> Section:
        """Acceptance by server and by position."""
        rate = self._trend("acceptance_rate", acceptance_words(self._low), SHARE, LOWEST, self._low)
        title = f"{SPEEDUP}: does it stay above {self._loss:g}?"
        speedup = self._trend("estimated_speedup", self._speedup_words(title), TIMES, LOWEST, self._loss)
        position = Query(self._all("position_acceptance").expr, "position {{position}}")
        # Thinner with every position: order must not hang on telling shades apart.
        widths = {f"position {index}": {"custom.lineWidth": 5 - index} for index in range(4)}
        trend = grafana.time_series(TRENDS["position_acceptance"], [position], SHARE, shade=GOOD, styles=widths)
        now = grafana.bars(TRENDS["position_now"], position, SHARE, GOOD)
        return Section("Does the draft fit the traffic?", (Line(10, (rate, speedup)), Line(10, (trend, now))))

    def drafting(self) -> Section:
        """How much is drafted, and what becomes of it."""
        length = self._trend("draft_length", TRENDS["draft_length"], TOKENS, LOWEST)
        coverage = self._trend("draft_coverage", TRENDS["draft_coverage"], SHARE, LOWEST, self._idle)
        flows = {
            "drafted": ("draft_throughput", NEUTRAL),
            "accepted": ("accepted_throughput", GOOD),
            "wasted": ("wasted_throughput", WARN),
            "generated": ("generation_throughput", OUTPUT),
        }
        tokens = grafana.time_series(
            TRENDS["tokens"],
            [Query(self._all(name).expr, legend) for legend, (name, _) in flows.items()],
            RATE,
            styles={legend: grafana.fixed(colour) for legend, (_, colour) in flows.items()},
        )
        return Section("How much is drafted, and what becomes of it?", (Line(10, (length, coverage, tokens)),))

    def serving(self) -> Section:
        """Latency and load."""
        tpot, itl, batch, queue = (
            self._trend(name, TRENDS[name], scale, HIGHEST)
            for name, scale in (
                ("tpot", SECONDS),
                ("step_latency", SECONDS),
                ("running_requests", REQUESTS),
                ("waiting_requests", REQUESTS),
            )
        )
        return Section("What do users and servers feel?", (Line(9, (tpot, itl)), Line(9, (batch, queue))))

    def drift(self) -> Section:
        """The sidecar's drift score."""
        # The sidecar calls a server target; under the name that vLLM's own series have, it keeps its colour.
        scores = 'specwatch_drift_score{model_name=~"$model_name", target=~"$instance"}'
        named = f'label_replace({scores}, "instance", "$1", "target", "(.+)")'
        score = grafana.time_series(
            DRIFT,
            [Query(f"max by (instance, model_name) ({named})", SERVER_LEGEND)],
            Scale("none", decimals=2),
            first=HIGHEST,
            alarm=alert("SpeculationDrifted").threshold,
        )
        return Section("Has the traffic drifted away from the draft?", (Line(9, (score,)),))

    def restarts(self) -> dict[str, Any]:
        """Marks where a server's count of tokens fell: after a restart it begins at 0 again."""
        tokens = self._live.series(SERIES[Counter.GENERATION_TOKENS][0])
        labels = ", ".join(SERVER)
        before = f"sum by ({labels}) (last_over_time({tokens}[{LOOK_BACK}] offset {WINDOW}))"
        return grafana_dashboard.annotation(
            "Restarts", f"sum by ({labels}) ({tokens})\n<\n{before}", "{{instance}} restarted", NEUTRAL
        )

    def _all(self, name: str) -> Query:
        return Query(self._live.signal(self._signals[name], FLEET), self._signals[name].title)

    def _each(self, name: str) -> Query:
        return Query(self._live.signal(self._signals[name], SERVER), SERVER_LEGEND)

    def _trend(self, name: str, words: Words, scale: Scale, first: str, alarm: float | None = None) -> Any:
        return grafana.time_series(words, [self._each(name)], scale, first=first, alarm=alarm)

    def _speedup_words(self, title: str) -> Words:
        return speedup_words(title, self._cost.c, self._loss)


_SEVERITIES: Mapping[Severity, tuple[int, str]] = {Severity.TICKET: (1, WARN), Severity.PAGE: (2, BAD)}
"""The value that stands for each severity among the alerts' lanes, and its colour."""

_PROVISIONING_TEXT = """\
# Tells Grafana where the dashboards lie. Copy this file into Grafana's provisioning/dashboards folder, and the
# .json files beside its parent folder into the path below.
apiVersion: 1
providers:
  - name: specwatch
    folder: specwatch
    type: file
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: /var/lib/grafana/dashboards/specwatch
"""
