"""An Alertmanager configuration for the alerts of the catalogue: who hears of what, and in which words.

Valid for Alertmanager 0.25 and later. Secrets stay in files that only Alertmanager reads.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from specwatch.alerting.catalogue import ALERTS, Severity, alert
from specwatch.generate.promql import Level, duration, quoted
from specwatch.generate.rules_config import Audience, RulesConfig

TEMPLATES = "specwatch.tmpl"
"""File of the texts, beside the configuration."""

GROUP_BY = ("alertname", *Level.MODEL.labels)
"""One message for all servers of a model on which the same alert fires: they share the cause more often than not."""

GROUP_WAIT = 30.0
"""Seconds to wait for more alerts of a group before its first message: one evaluation of the rules, so that the
servers of a model that fail together come together."""
GROUP_INTERVAL = 300.0
"""Seconds between messages about changes within a group; Alertmanager's own default."""
REPEAT_INTERVAL = {Severity.PAGE: 4 * 3600.0, Severity.TICKET: 24 * 3600.0}
"""Seconds after which an unchanged alert is told again: a page within a shift, a ticket on the next day."""

PAGERDUTY_SEVERITY = {Severity.PAGE: "critical", Severity.TICKET: "warning"}
"""Services that set urgency by severity make these high and low."""
SLACK_COLOUR = {Severity.PAGE: "danger", Severity.TICKET: "warning"}

_DOWN = alert("SpeculationTargetDown")
_SLOWER = alert("SpeculationSlowerThanNone")
_LOW = alert("SpeculativeAcceptanceRateLow")


def configuration(config: RulesConfig) -> dict[str, Any]:
    """The whole of alertmanager.yml."""
    return {
        "templates": [TEMPLATES],
        "route": _route(config),
        "inhibit_rules": inhibitions(),
        "receivers": [_receiver(severity, config) for severity in Severity],
    }


def templates() -> str:
    """The texts, as Alertmanager's templates."""
    return (files("specwatch.generate") / TEMPLATES).read_text(encoding="utf-8")


def secrets(config: RulesConfig) -> dict[str, str]:
    """Files that Alertmanager must be able to read, and what each holds."""
    files_of_channels = {
        config.slack_url_file: (config.slack_for, "the address of the Slack webhook"),
        config.pagerduty_key_file: (
            config.pagerduty_for,
            "the integration key of the PagerDuty service, Events API v2",
        ),
    }
    return {path: content for path, (who, content) in files_of_channels.items() if who is not Audience.NONE}


def receiver_name(severity: Severity) -> str:
    """Name of the receiver that gets alerts of this severity."""
    return f"specwatch-{severity.value}"


def inhibitions() -> list[dict[str, Any]]:
    """What is not worth telling while something else fires.

    A server that cannot be scraped: whatever else was said about it is old. A server that speculation slows down:
    its low acceptance is the reason, and the page about the one is out already. Drift is not silenced: that
    acceptance was better before is news to whoever got the page.
    """
    about_servers = "|".join(entry.name for entry in ALERTS if entry is not _DOWN)
    return [
        _inhibition(_DOWN.name, f"alertname=~{quoted(about_servers)}", "job", "instance"),
        _inhibition(_SLOWER.name, f"alertname={quoted(_LOW.name)}", *Level.INSTANCE.labels),
    ]


def _inhibition(source: str, target: str, *equal: str) -> dict[str, Any]:
    return {
        "source_matchers": [f"alertname={quoted(source)}"],
        "target_matchers": [target],
        "equal": list(equal),
    }


def _route(config: RulesConfig) -> dict[str, Any]:
    # What has no severity of ours still reaches somebody, in working hours.
    return {
        "receiver": receiver_name(Severity.TICKET),
        "group_by": list(GROUP_BY),
        "group_wait": duration(config.scaled(GROUP_WAIT)),
        "group_interval": duration(config.scaled(GROUP_INTERVAL)),
        "repeat_interval": duration(config.scaled(REPEAT_INTERVAL[Severity.TICKET])),
        "routes": [
            {
                "receiver": receiver_name(severity),
                "matchers": [f"severity={quoted(severity.value)}"],
                "repeat_interval": duration(config.scaled(REPEAT_INTERVAL[severity])),
            }
            for severity in Severity
        ],
    }


def _receiver(severity: Severity, config: RulesConfig) -> dict[str, Any]:
    receiver: dict[str, Any] = {"name": receiver_name(severity)}
    if config.pagerduty_for.includes(severity):
        receiver["pagerduty_configs"] = [_pagerduty(severity, config)]
    if config.slack_for.includes(severity):
        receiver["slack_configs"] = [_slack(severity, config)]
    return receiver


def _slack(severity: Severity, config: RulesConfig) -> dict[str, Any]:
    channel = {"channel": config.slack_channel} if config.slack_channel else {}
    return {
        "api_url_file": config.slack_url_file,
        **channel,
        "send_resolved": True,
        "color": f"{{{{ if .Alerts.Firing }}}}{SLACK_COLOUR[severity]}{{{{ else }}}}good{{{{ end }}}}",
        "title": _template("slack.title"),
        "title_link": _template("slack.link"),
        "text": _template("slack.text"),
        "fallback": _template("slack.title"),
        "footer": _template("slack.footer"),
    }


def _pagerduty(severity: Severity, config: RulesConfig) -> dict[str, Any]:
    address = {"url": config.pagerduty_url} if config.pagerduty_url else {}
    return {
        "routing_key_file": config.pagerduty_key_file,
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
        ],
    }


def _template(name: str, argument: str = ".") -> str:
    return f'{{{{ template "specwatch.{name}" {argument} }}}}'
