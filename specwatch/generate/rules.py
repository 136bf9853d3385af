"""Prometheus' recording and alerting rules, made from the catalogues.

All but drift is worked out from vLLM's own metrics, so the rules serve fleets without a sidecar as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specwatch.alerting.catalogue import ALERTS, Alert
from specwatch.alerting.evaluation import CLEAR_SECONDS, NO_DATA_SECONDS
from specwatch.alerting.watchdogs import HEARTBEAT
from specwatch.generate.alert_subjects import Subject, subject_of
from specwatch.generate.promql import V0_SIGNALS, duration, number, quoted
from specwatch.generate.recording_rules import Rule, recording, recording_groups
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.metrics import Counter

ALERTING_GROUP = "specwatch-alerts"

RUNBOOKS = "docs/runbooks"
"""Where runbooks are in this repository."""

NOBODY = "none"
"""Severity of the heartbeat: it wakes nobody by firing."""


def groups(config: RulesConfig) -> list[dict[str, Any]]:
    """Everything recorded, a group a window, and the alerts."""
    alerts = [*(alerting_rule(entry, config) for entry in config.alerts), heartbeat_rule(config)]
    interval = duration(config.scaled(config.interval))
    return [*recording_groups(config), {"name": ALERTING_GROUP, "interval": interval, "rules": alerts}]


def alerting_rule(entry: Alert, config: RulesConfig) -> Rule:
    """One alert of the catalogue as a rule; a KeyError when its texts name a label that the expression lacks."""
    subject = subject_of(entry, config)
    rule: Rule = {"alert": entry.name, "expr": _condition(entry, subject, config)}
    if entry.for_seconds:
        rule["for"] = duration(config.scaled(entry.for_seconds))
    rule["keep_firing_for"] = duration(config.scaled(CLEAR_SECONDS))
    rule["labels"] = {"severity": config.severity(entry).value, **config.alert_labels}
    rule["annotations"] = _annotations(entry, subject, config)
    return rule


def heartbeat_rule(config: RulesConfig) -> Rule:
    """The alert that always fires."""
    return {
        "alert": HEARTBEAT.name,
        "expr": "vector(1)",
        "labels": {"severity": NOBODY, **config.alert_labels},
        "annotations": {
            "summary": HEARTBEAT.summary,
            "description": HEARTBEAT.description,
            "runbook_url": f"{config.runbook_base or RUNBOOKS}/{HEARTBEAT.runbook}",
        },
    }


def _condition(entry: Alert, subject: Subject, config: RulesConfig) -> str:
    minimums = {Counter.DRAFT_TOKENS: entry.min_draft_rate, Counter.GENERATION_TOKENS: entry.min_generation_rate}
    traffic = [_enough(counter, least, entry, subject, config) for counter, least in minimums.items() if least]
    needed = (*subject.guards, *traffic)
    past = f"{subject.expression} {entry.comparison.value} {number(config.threshold(entry))}"
    holds = "\nand\n".join([past, *needed, *subject.lasting])
    # Of absence, and of several servers at once, there is always something to say.
    return f"{holds}\nor\n{_last_known(entry, subject, needed, config)}" if entry in ALERTS else holds


def _last_known(entry: Alert, subject: Subject, needed: Sequence[str], config: RulesConfig) -> str:
    """What was last known of a server that nothing is known of now, while the alert fires: no data is not "fixed".

    As in ``alerting.evaluation``, it outlives its data by NO_DATA_SECONDS, of which the last ones are
    ``keep_firing_for``.
    """
    known = "\nand\n".join([subject.expression, *needed])
    memory = duration(config.scaled(NO_DATA_SECONDS - CLEAR_SECONDS))
    step = duration(config.scaled(config.interval))
    return (
        f"last_over_time(({known})[{memory}:{step}])\n"
        f"unless\n({known})\n"
        f"and on ({', '.join(subject.labels)})\n"
        f'ALERTS{{alertname={quoted(entry.name)}, alertstate="firing"}}'
    )


def _enough(counter: Counter, least: float, entry: Alert, subject: Subject, config: RulesConfig) -> str:
    flowing = f"{recording(config).counter(counter, subject.level)} >= {number(least)}"
    if entry.signal not in V0_SIGNALS or config.v0_num_speculative_tokens is None:
        return flowing
    # V0's draft tokens are not to be trusted, so what it generates has to do.
    drafted, generated = (
        recording(config).counter(each, subject.level) for each in (Counter.DRAFT_TOKENS, Counter.GENERATION_TOKENS)
    )
    return f"(\n  {flowing}\n  or\n  {generated} >= {number(least)} unless {drafted}\n)"


def _annotations(entry: Alert, subject: Subject, config: RulesConfig) -> dict[str, str]:
    fields = _fields(entry, subject, config)
    annotations = {
        "summary": entry.summary.format_map(fields),
        "description": entry.description.format_map(fields),
        "runbook_url": f"{config.runbook_base or RUNBOOKS}/{entry.runbook}",
    }
    if config.dashboard_url:
        annotations["dashboard_url"] = _dashboard(config.dashboard_url, subject)
    return annotations


def _fields(entry: Alert, subject: Subject, config: RulesConfig) -> dict[str, str]:
    """What stands for the catalogue's fields in Prometheus' templates; only labels that the result has."""
    shown = "humanizePercentage" if entry.as_percentage else 'printf "%.3g"'
    threshold = config.threshold(entry)
    fields = {
        "target": f"{{{{ $labels.{subject.target} }}}}",
        "value": f"{{{{ $value | {shown} }}}}",
        "threshold": f"{threshold * 100:.4g}%" if entry.as_percentage else f"{threshold:.6g}",
    }
    if "model_name" in subject.labels:
        fields["model"] = "{{ $labels.model_name }}"
    return fields


def _dashboard(address: str, subject: Subject) -> str:
    """The dashboard with its variables set to what the alert is about."""
    if not subject.on_dashboard:
        return address
    variables = "&".join(f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in subject.labels)
    return f"{address}{'&' if '?' in address else '?'}{variables}"
