"""Prometheus' recording and alerting rules, made from the catalogues.

All but drift is worked out from vLLM's own metrics, so the rules serve fleets without a sidecar as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specwatch.alerting.catalogue import Alert
from specwatch.alerting.evaluation import CLEAR_SECONDS
from specwatch.generate.promql import INSTANCE_LABEL, Level, Recording, duration, number, quoted
from specwatch.generate.rules_config import RULES, RulesConfig
from specwatch.signals.catalogue import Signal, signals
from specwatch.signals.speedup import given
from specwatch.vllm.metrics import Counter

RECORDING_GROUP = "specwatch-recording"
ALERTING_GROUP = "specwatch-alerts"

RUNBOOKS = "docs/runbooks"
"""Where runbooks are in this repository."""

Rule = dict[str, Any]
"""One rule as Prometheus' YAML has it."""


@dataclass(frozen=True)
class Subject:
    """What an alert's condition is asked of: PromQL, and the labels that its result has for sure."""

    expression: str
    labels: tuple[str, ...]
    target: str = INSTANCE_LABEL
    """The label that says in a text what the alert is about."""
    on_dashboard: bool = True
    """Whether the dashboard can be narrowed to it by the labels; the sidecar itself is on none."""


def groups(config: RulesConfig) -> list[dict[str, Any]]:
    """Both groups: everything recorded, each rule after those it reads, and the alerts."""
    interval = duration(config.scaled(config.interval))
    return [
        {"name": RECORDING_GROUP, "interval": interval, "rules": list(recording_rules(config))},
        {"name": ALERTING_GROUP, "interval": interval, "rules": [alerting_rule(entry, config) for entry in RULES]},
    ]


def recording(config: RulesConfig) -> Recording:
    """Names and expressions of what these rules record."""
    return Recording(vllm_selector(config), config.scaled(config.rate_window))


def vllm_selector(config: RulesConfig) -> str:
    """Label matchers of the vLLM targets."""
    labels = {"job": config.vllm_job, **config.target_labels}
    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items())


def recording_rules(config: RulesConfig) -> Iterable[Rule]:
    """Rates of counters, then signals, for servers and then for models."""
    names = recording(config)
    for level in Level:
        for counter in Counter:
            yield _record(names.counter(counter, level), names.counter_expression(counter, level))
        yield _record(names.accepted_at_position(level), names.accepted_at_position_expression(level))
        yield _record(names.drafts_at_position(level), names.drafts_at_position_expression(level))
        for signal in _signals(config):
            # The rate of one counter is recorded already.
            if names.signal(signal, level) != names.signal_expression(signal, level):
                yield _record(names.signal(signal, level), names.signal_expression(signal, level))


def alerting_rule(entry: Alert, config: RulesConfig) -> Rule:
    """One alert of the catalogue as a rule; a KeyError when its texts name a label that the expression lacks."""
    subject = subject_of(entry, config)
    rule: Rule = {"alert": entry.name, "expr": _condition(entry, subject, config)}
    if entry.for_seconds:
        rule["for"] = duration(config.scaled(entry.for_seconds))
    rule["keep_firing_for"] = duration(config.scaled(CLEAR_SECONDS))
    rule["labels"] = {"severity": config.severity(entry).value}
    rule["annotations"] = _annotations(entry, subject, config)
    return rule


def subject_of(entry: Alert, config: RulesConfig) -> Subject:
    """What the alert's condition is asked of."""
    states = _states(config)
    if entry.signal in states:
        return states[entry.signal]
    signal = next(signal for signal in _signals(config) if signal.name == entry.signal)
    return Subject(recording(config).signal(signal), Level.INSTANCE.labels)


def _states(config: RulesConfig) -> Mapping[str, Subject]:
    vllm, sidecar = vllm_selector(config), f"job={quoted(config.specwatch_job)}"
    return {
        "target_up": Subject(f"up{{{vllm}}}", ("job", "instance")),
        # absent() answers with the labels that it was asked for.
        "targets_absent": Subject(f"absent(up{{{vllm}}})", ("job",), target="job"),
        "sidecar_up": Subject(f"up{{{sidecar}}}", ("job", "instance"), on_dashboard=False),
        "drift_score": Subject(_drift(config, sidecar), Level.INSTANCE.labels),
    }


def _drift(config: RulesConfig, sidecar: str) -> str:
    """The sidecar's score under the labels of the server it speaks of, so that routes and inhibitions meet it.

    The sidecar calls a target by host and port, as Prometheus does, unless it was given another name.
    """
    of_server = f'label_replace(specwatch_drift_score{{{sidecar}}}, "instance", "$1", "target", "(.+)")'
    job = quoted(config.vllm_job.replace("$", "$$"))  # a lone $ would name a group of the pattern
    of_job = f'label_replace(\n    {of_server},\n    "job", {job}, "", ""\n  )'
    return f"max by ({', '.join(Level.INSTANCE.labels)}) (\n  {of_job}\n)"


def _condition(entry: Alert, subject: Subject, config: RulesConfig) -> str:
    names = recording(config)
    text = f"{subject.expression} {entry.comparison.value} {number(config.threshold(entry))}"
    minimums = {Counter.DRAFT_TOKENS: entry.min_draft_rate, Counter.GENERATION_TOKENS: entry.min_generation_rate}
    guards = [f"{names.counter(counter)} >= {number(least)}" for counter, least in minimums.items() if least]
    return "\nand\n".join([text, *guards])


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
        "threshold": f"{threshold * 100:.4g}%" if entry.as_percentage else f"{threshold:.3g}",
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


def _signals(config: RulesConfig) -> tuple[Signal, ...]:
    return signals(given(config.draft_cost))


def _record(name: str, expression: str) -> Rule:
    return {"record": name, "expr": expression}
