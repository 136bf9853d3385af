"""What a platform team may choose about the generated rules and routes, validated with what was probably meant."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from specwatch.alerting.catalogue import ALERTS, RATE_WINDOW, Alert, Comparison, Severity
from specwatch.alerting.watchdogs import WATCHDOGS, alert
from specwatch.generate.promql import UNITS
from specwatch.generate.working_hours import WorkingHours, working_hours
from specwatch.signals.drift import CEILING
from specwatch.signals.speedup import ASSUMED
from specwatch.vllm.metrics import MAX_POSITIONS

RULES: tuple[Alert, ...] = (*ALERTS, *WATCHDOGS)
"""Every alert that can be generated."""

LIMIT = alert("SpeculationPastConcurrencyLimit")
"""The alert that is off until its limit is chosen."""

INTERVAL = 30.0
"""Seconds between two evaluations of the rules: a tenth of the window, so ``for`` is kept to a tenth as well."""

POINTS_IN_WINDOW = 4
"""Evaluations, and so about scrapes, that a rate's window must hold: with fewer, one missed scrape empties it."""

LARGEST_THRESHOLD: Mapping[str, float] = {"estimated_speedup": 10.0, "drift_score": CEILING}
"""By signal. Nobody has decoded ten times faster (Leviathan et al. 2023 expect 6.86 at best), and the drift score
stops growing at its ceiling; as a percentage, anything is at most 1."""


COUNTS = frozenset({"servers_without_metrics", "mangled_series"})
"""Signals that are whole numbers."""


class Audience(str, Enum):
    """Whose alerts a channel gets."""

    ALL = "all"
    PAGE = "page"
    TICKET = "ticket"
    NONE = "none"

    def includes(self, severity: Severity) -> bool:
        """Whether alerts of this severity go there."""
        return self is Audience.ALL or self.value == severity.value


def _refuse(text: str) -> PydanticCustomError:
    # The text goes in as a value: braces of the user's own must not be read as a template.
    return PydanticCustomError("unusable", "{text}", {"text": text})


def _seconds(value: Any) -> Any:
    """``5m`` and ``300`` mean 300.0; anything else is left for pydantic to refuse."""
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value) if isinstance(value, str) else None
    return int(match[1]) * dict(UNITS)[match[2]] / 1000 if match else value


def _known(names: Mapping[str, Any]) -> Mapping[str, Any]:
    known = [entry.name for entry in RULES]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            raise _refuse(f"there is no alert {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return names


def _possible(thresholds: Mapping[str, float]) -> Mapping[str, float]:
    problems = [problem for name, value in thresholds.items() if (problem := _problem(alert(name), value))]
    if problems:
        raise _refuse("; ".join(problems))
    return thresholds


def _problem(entry: Alert, value: float) -> str | None:
    if entry.comparison is Comparison.EQUALS:
        return f"{entry.name} has no threshold to set"
    if not math.isfinite(value) or value <= 0:
        return f"{entry.name}: {value:g} is no threshold; write a number above 0"
    if entry.as_percentage and value > 1:
        meant = f"; write {value / 100:g} for {value:g} %" if value <= 100 else ""
        return f"{entry.name}: {value:g} is no ratio from 0 to 1{meant}"
    if entry.signal in COUNTS and value != int(value):
        return f"{entry.name}: {value:g} is no number of servers or series; write a whole one"
    largest = LARGEST_THRESHOLD.get(entry.signal, math.inf)
    if value > largest:
        return f"{entry.name}: {value:g} is more than {largest:g}, which {entry.signal} does not reach"
    return None


OWN_LABELS = frozenset({"job", "instance", "model_name", "engine", "position", "alertname", "severity"})
"""Labels that the rules themselves match or keep apart."""


def _chosen(labels: Mapping[str, str]) -> Mapping[str, str]:
    for name in labels:
        if name in OWN_LABELS or not re.fullmatch(r"[a-zA-Z_]\w*", name):
            raise _refuse(f"{name!r} cannot choose targets; use a label of your own, such as namespace or cluster")
    return labels


def _added(labels: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in labels.items():
        if name in OWN_LABELS or not re.fullmatch(r"[a-zA-Z_]\w*", name, re.ASCII):
            raise _refuse(f"{name!r} cannot be put on alerts; use a label of your own, such as team")
        if "{{" in value:
            raise _refuse(f"{name}: Prometheus would read {value[:40]!r} as a template; write plain text")
    return labels


def _teams(teams: Mapping[str, Any]) -> Mapping[str, Any]:
    for team in teams:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", team) or len(team) > LONGEST_TEAM:
            near = re.sub("[^a-z0-9]+", "-", team.lower()).strip("-")[:LONGEST_TEAM].strip("-")
            meant = f"; did you mean {near}?" if near else ""
            raise _refuse(f"{team!r} is no team's name: lower-case letters, digits and '-'{meant}")
        if team in (severity.value for severity in Severity):
            raise _refuse(f"a team cannot be called {team}: receivers are called like teams and severities")
    return teams


def _models_teams(teams: Mapping[str, str]) -> Mapping[str, str]:
    _teams(dict.fromkeys(teams.values()))
    return teams


def _address(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s{}]+", text):
        raise _refuse("write an address that begins with http:// or https://")
    return text.rstrip("/")


def _address_as_it_is(text: str) -> str:
    _address(text)
    return text


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=86_400)]
Address = Annotated[str, AfterValidator(_address)]
ExactAddress = Annotated[str, AfterValidator(_address_as_it_is)]
Text = Annotated[str, Field(min_length=1)]
PathsByTeam = Annotated[dict[str, Text], AfterValidator(_teams)]

LONGEST_TEAM = 40
"""Characters of a team's name: it is part of receivers' names, which are shown on a line."""


class RulesConfig(BaseModel):
    """Choices for ``specwatch gen-alerts``; keys of its configuration file are these names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vllm_job: Annotated[str, Field(min_length=1)] = "vllm"
    """Prometheus' job that scrapes the vLLM servers."""
    specwatch_job: Annotated[str, Field(min_length=1)] = "specwatch"
    """Prometheus' job that scrapes the sidecar, where there is one."""
    target_labels: Annotated[dict[str, Annotated[str, Field(min_length=1)]], AfterValidator(_chosen)] = {}
    """Further labels that the vLLM targets have: one value each."""
    rate_window: Seconds = RATE_WINDOW
    interval: Seconds = INTERVAL
    draft_cost: Annotated[float, Field(gt=0, le=10)] = ASSUMED.c
    """Time of one draft token ÷ time of one plain target step, for the estimated speedup."""
    thresholds: Annotated[dict[str, float], AfterValidator(_known), AfterValidator(_possible)] = {}
    """By alert, instead of the catalogue's."""
    severities: Annotated[dict[str, Severity], AfterValidator(_known)] = {}
    """By alert, instead of the catalogue's."""
    max_spec_concurrency: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Requests at once in one engine up to which speculation pays; without it no alert asks for it."""
    v0_num_speculative_tokens: Annotated[int, Field(ge=1, le=MAX_POSITIONS)] | None = None
    """K of servers that run the V0 engine, whose page does not show it; without it they have no acceptance."""
    alert_labels: Annotated[dict[str, Text], AfterValidator(_added)] = {}
    """Further labels of every alert, such as team."""
    time_scale: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Factor on every duration, for rehearsals and tests."""
    runbook_base: Address = ""
    """Where docs/runbooks is published; without it, annotations hold paths instead of links."""
    dashboard_url: Address = ""
    """Address of the dashboard in Grafana; without it, alerts have no link to one."""
    slack_url_file: Annotated[str, Field(min_length=1)] = "/etc/alertmanager/secrets/slack-url"
    """File on Alertmanager's machine that holds the address of the Slack webhook."""
    slack_channel: str = ""
    """Empty: the webhook's own."""
    slack_for: Audience = Audience.ALL
    pagerduty_key_file: Annotated[str, Field(min_length=1)] = "/etc/alertmanager/secrets/pagerduty-key"
    """File on Alertmanager's machine that holds the integration key (Events API v2)."""
    pagerduty_url: Address = ""
    """Empty: PagerDuty's own for the US; https://events.eu.pagerduty.com/v2/enqueue is the European one."""
    pagerduty_for: Audience = Audience.ALL
    webhook_url: ExactAddress = ""
    """Empty: no webhook. It stands in the configuration as it is, so a secret belongs into webhook_token_file."""
    webhook_token_file: str = ""
    """File on Alertmanager's machine that holds the webhook's bearer token; empty: it wants none."""
    webhook_for: Audience = Audience.ALL
    heartbeat_url: ExactAddress = ""
    """Whom the alert that always fires is told, so that its end is noticed; empty: nobody."""
    model_teams: Annotated[dict[str, str], AfterValidator(_models_teams)] = {}
    """Team by name of a model, in which * stands for anything."""
    team_slack_url_files: PathsByTeam = {}
    """By team, instead of slack_url_file."""
    team_pagerduty_key_files: PathsByTeam = {}
    """By team, instead of pagerduty_key_file."""
    ticket_hours: Annotated[WorkingHours, BeforeValidator(working_hours), PlainSerializer(str)] | None = None
    """When tickets are told, as in "monday:friday 08:00-18:00 Europe/Berlin"; without it always."""

    @model_validator(mode="after")
    def _fits_together(self) -> RulesConfig:
        if self.rate_window < POINTS_IN_WINDOW * self.interval:
            raise _refuse(f"rate_window must be at least {POINTS_IN_WINDOW} times the interval of {self.interval:g} s")
        self._check_that_speculation_can_lose()
        for severity in Severity:
            webhook = bool(self.webhook_url) and self.webhook_for.includes(severity)
            if not (webhook or self.slack_for.includes(severity) or self.pagerduty_for.includes(severity)):
                raise _refuse(f"nobody would get alerts of severity {severity.value}: widen slack_for or pagerduty_for")
        return self

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts that are generated."""
        return tuple(entry for entry in RULES if math.isfinite(self.threshold(entry)))

    @property
    def teams(self) -> tuple[str, ...]:
        """Every team that is named, in order."""
        named = {*self.model_teams.values(), *self.team_slack_url_files, *self.team_pagerduty_key_files}
        return tuple(sorted(named))

    def _check_that_speculation_can_lose(self) -> None:
        slower = alert("SpeculationSlowerThanNone")
        lowest = 1 / (1 + MAX_POSITIONS * self.draft_cost)
        if self.threshold(slower) <= lowest:
            raise _refuse(
                f"{slower.name} could never fire: at a draft_cost of {self.draft_cost:g} the estimated speedup stays "
                f"above {lowest:.3g}, whatever is accepted; raise its threshold or the draft_cost"
            )

    def scaled(self, seconds: float) -> float:
        """A duration as it is written into the files."""
        return seconds * self.time_scale

    def threshold(self, entry: Alert) -> float:
        """The threshold that holds for an alert."""
        if entry is LIMIT and self.max_spec_concurrency is not None:
            return self.thresholds.get(entry.name, self.max_spec_concurrency)
        return self.thresholds.get(entry.name, entry.threshold)

    def severity(self, entry: Alert) -> Severity:
        """The severity that holds for an alert."""
        return self.severities.get(entry.name, entry.severity)
