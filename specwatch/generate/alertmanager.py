"""An Alertmanager configuration for the alerts of the catalogue: who hears of what, and in which words.

Valid for Alertmanager 0.25 and later. Secrets stay in files that only Alertmanager reads.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from specwatch.alerting.catalogue import Severity
from specwatch.alerting.incidents import GROUP_INTERVAL, GROUP_WAIT
from specwatch.alerting.inhibition import INHIBITIONS, Same
from specwatch.alerting.notification import MOST_SERVERS
from specwatch.alerting.watchdogs import HEARTBEAT
from specwatch.generate.promql import INSTANCE_LABEL, Level, duration, quoted
from specwatch.generate.rules_config import Audience, RulesConfig

TEMPLATES = "specwatch.tmpl"
"""File of the texts, beside the configuration."""

GROUP_BY = ("alertname", *Level.MODEL.labels)
"""One message for all servers of a model on which the same alert fires: they share the cause more often than not."""

REPEAT_INTERVAL = {Severity.PAGE: 4 * 3600.0, Severity.TICKET: 24 * 3600.0}
"""Seconds after which an unchanged alert is told again: a page within a shift, a ticket on the next day."""

PAGERDUTY_SEVERITY = {Severity.PAGE: "critical", Severity.TICKET: "warning"}
"""Services that set urgency by severity make these high and low."""
SLACK_COLOUR = {Severity.PAGE: "danger", Severity.TICKET: "warning"}

HEARTBEAT_RECEIVER = "specwatch-heartbeat"
HEARTBEAT_INTERVAL = 60.0
"""Seconds between two signs of life: whoever waits for them can be set to five minutes, and not be fooled by one."""

OUT_OF_HOURS = "specwatch-out-of-hours"


def configuration(config: RulesConfig) -> dict[str, Any]:
    """The whole of alertmanager.yml."""
    hours = config.ticket_hours
    return {
        "templates": [TEMPLATES],
        **({"time_intervals": [{"name": OUT_OF_HOURS, "time_intervals": hours.outside()}]} if hours else {}),
        "route": _route(config),
        "inhibit_rules": inhibitions(),
        "receivers": [
            *(_receiver(severity, team, config) for team in ("", *config.teams) for severity in Severity),
            _heartbeat_receiver(config),
        ],
    }


def templates() -> str:
    """The texts, as Alertmanager's templates."""
    return (files("specwatch.generate") / TEMPLATES).read_text(encoding="utf-8")


def secrets(config: RulesConfig) -> dict[str, str]:
    """Files that Alertmanager must be able to read, and what each holds."""
    slack, pagerduty = "the address of the Slack webhook", "the integration key of the PagerDuty service, Events API v2"
    files_of_channels = [
        (config.slack_for, config.slack_url_file, slack),
        (config.pagerduty_for, config.pagerduty_key_file, pagerduty),
        *((config.slack_for, path, f"{slack} of {team}") for team, path in config.team_slack_url_files.items()),
        *(
            (config.pagerduty_for, path, f"{pagerduty}, of {team}")
            for team, path in config.team_pagerduty_key_files.items()
        ),
    ]
    found = {path: content for who, path, content in files_of_channels if who is not Audience.NONE}
    if config.webhook_url and config.webhook_token_file and config.webhook_for is not Audience.NONE:
        found[config.webhook_token_file] = "the webhook's bearer token"
    return found


def receiver_name(severity: Severity, team: str = "") -> str:
    """Name of the receiver that gets alerts of this severity, of a team's models or of all the others."""
    return "-".join(["specwatch", *([team] if team else []), severity.value])


def inhibitions() -> list[dict[str, Any]]:
    """What is not worth telling while something else fires: ``INHIBITIONS``, as the sidecar has them too."""
    return [
        {
            "source_matchers": [f"alertname={quoted(rule.source)}"],
            "target_matchers": [f"alertname=~{quoted('|'.join(rule.symptoms))}"],
            "equal": [_LABELS[same] for same in rule.same],
        }
        for rule in INHIBITIONS
    ]


_LABELS = {Same.JOB: "job", Same.SERVER: INSTANCE_LABEL, Same.MODEL: "model_name"}


def _route(config: RulesConfig) -> dict[str, Any]:
    # What has no severity of ours still reaches somebody, in working hours.
    return {
        "receiver": receiver_name(Severity.TICKET),
        "group_by": list(GROUP_BY),
        "group_wait": duration(config.scaled(GROUP_WAIT)),
        "group_interval": duration(config.scaled(GROUP_INTERVAL)),
        "repeat_interval": duration(config.scaled(REPEAT_INTERVAL[Severity.TICKET])),
        "routes": [
            _heartbeat_route(config),
            *(route for team in config.teams for route in _team_routes(team, config)),
            *_severity_routes("", config),
        ],
    }


def _heartbeat_route(config: RulesConfig) -> dict[str, Any]:
    interval = duration(config.scaled(HEARTBEAT_INTERVAL))
    return {
        "receiver": HEARTBEAT_RECEIVER,
        "matchers": [f"alertname={quoted(HEARTBEAT.name)}"],
        "group_wait": "0s",
        "group_interval": interval,
        "repeat_interval": interval,
    }


def _team_routes(team: str, config: RulesConfig) -> list[dict[str, Any]]:
    """By the label that says whose an alert is, and by the models that are said to be theirs."""
    models = [_pattern(model) for model, owner in config.model_teams.items() if owner == team]
    matchers = [f"team={quoted(team)}", *([f"model_name=~{quoted('|'.join(models))}"] if models else [])]
    return [
        {
            "receiver": receiver_name(Severity.TICKET, team),
            "matchers": [matcher],
            "routes": _severity_routes(team, config),
        }
        for matcher in matchers
    ]


def _pattern(model: str) -> str:
    """A regular expression for the model's name, in which * stands for anything."""
    return ".*".join(re.escape(part) for part in model.split("*"))


def _severity_routes(team: str, config: RulesConfig) -> list[dict[str, Any]]:
    return [
        {
            "receiver": receiver_name(severity, team),
            "matchers": [f"severity={quoted(severity.value)}"],
            "repeat_interval": duration(config.scaled(REPEAT_INTERVAL[severity])),
            **_mute(severity, config),
        }
        for severity in Severity
    ]


def _mute(severity: Severity, config: RulesConfig) -> dict[str, Any]:
    if severity is Severity.PAGE or config.ticket_hours is None:
        return {}
    return {"mute_time_intervals": [OUT_OF_HOURS]}


def _receiver(severity: Severity, team: str, config: RulesConfig) -> dict[str, Any]:
    receiver: dict[str, Any] = {"name": receiver_name(severity, team)}
    if config.pagerduty_for.includes(severity):
        receiver["pagerduty_configs"] = [_pagerduty(severity, team, config)]
    if config.slack_for.includes(severity):
        receiver["slack_configs"] = [_slack(severity, team, config)]
    if config.webhook_url and config.webhook_for.includes(severity):
        receiver["webhook_configs"] = [_webhook(config)]
    return receiver


def _heartbeat_receiver(config: RulesConfig) -> dict[str, Any]:
    receiver: dict[str, Any] = {"name": HEARTBEAT_RECEIVER}
    if config.heartbeat_url:
        receiver["webhook_configs"] = [{"url": config.heartbeat_url, "send_resolved": False}]
    return receiver


def _webhook(config: RulesConfig) -> dict[str, Any]:
    # url_file came with 0.26 only; a token by file is older.
    authorization = {"authorization": {"credentials_file": config.webhook_token_file}}
    access = {"http_config": authorization} if config.webhook_token_file else {}
    return {"url": config.webhook_url, "send_resolved": True, "max_alerts": MOST_SERVERS, **access}


def _slack(severity: Severity, team: str, config: RulesConfig) -> dict[str, Any]:
    own = config.team_slack_url_files.get(team)
    channel = {"channel": config.slack_channel} if config.slack_channel and not own else {}
    return {
        "api_url_file": own or config.slack_url_file,
        **channel,
        "send_resolved": True,
        "color": f"{{{{ if .Alerts.Firing }}}}{SLACK_COLOUR[severity]}{{{{ else }}}}good{{{{ end }}}}",
        "title": _template("slack.title"),
        "title_link": _template("slack.link"),
        "text": _template("slack.text"),
        "fallback": _template("slack.title"),
        "footer": _template("slack.footer"),
    }


def _pagerduty(severity: Severity, team: str, config: RulesConfig) -> dict[str, Any]:
    address = {"url": config.pagerduty_url} if config.pagerduty_url else {}
    return {
        "routing_key_file": config.team_pagerduty_key_files.get(team, config.pagerduty_key_file),
        **address,
        "send_resolved": True,
        "severity": PAGERDUTY_SEVERITY[severity],
        "description": _template("pagerduty.summary"),
        "class": _template("line", ".GroupLabels.alertname"),
        "component": _template("line", ".GroupLabels.model_name"),
        "group": _template("line", ".GroupLabels.job"),
        "details": {
            "firing": _template("pagerduty.alerts", ".Alerts.Firing"),
            "resolved": _template("pagerduty.alerts", ".Alerts.Resolved"),
        },
        "links": [
            {"href": _template("pagerduty.runbook"), "text": "Runbook"},
            {"href": _template("pagerduty.dashboard"), "text": "Dashboard"},
            {"href": _template("silence"), "text": "Silence"},
        ],
    }


def _template(name: str, argument: str = ".") -> str:
    return f'{{{{ template "specwatch.{name}" {argument} }}}}'
