"""What the alerts of the catalogue are asked of, as PromQL over recorded series and Prometheus' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from specwatch.alerting.catalogue import Alert
from specwatch.generate.promql import INSTANCE_LABEL, POSITION, V1_ONLY, Level, duration, number, quoted
from specwatch.generate.recording_rules import LONG, TREND, recorded_signals, recording, vllm_selector
from specwatch.generate.rules_config import RulesConfig
from specwatch.signals.catalogue import Signal, signal
from specwatch.signals.speedup import UNDRAFTED
from specwatch.vllm.metrics import GAUGES, MANGLED, SERIES, V0_EFFICIENCY, Counter

WEEK = 7 * 86_400.0
"""Seconds: traffic repeats by the day of the week more than by the day."""

SAME_K = 0.1
"""Share by which mean K may differ for two acceptance rates to be comparable: r falls with K by itself."""

FEWEST_REPLICAS = 3
"""Of two servers that differ, nobody can say which one is off."""

MEMORY = 86_400.0
"""Seconds for which what is gone is remembered: whoever takes it away for good is told for a day at most."""

MANGLED_FAMILIES = "num_requests_running|generation_tokens_total|spec_decode_.+"
"""Of these no other program has any: the first two are on every page of vLLM, the others are what is missed."""


@dataclass(frozen=True)
class Subject:
    """What an alert's condition is asked of: PromQL, and the labels that its result has for sure."""

    expression: str
    labels: tuple[str, ...]
    target: str = INSTANCE_LABEL
    """The label that says in a text what the alert is about."""
    on_dashboard: bool = True
    """Whether the dashboard can be narrowed to it by the labels; the sidecar itself is on none."""
    guards: tuple[str, ...] = ()
    """What must hold for the expression to be judged at all."""
    lasting: tuple[str, ...] = ()
    """What must hold beside the comparison."""
    level: Level = Level.INSTANCE
    """Of whose traffic there must be enough."""


def subject_of(entry: Alert, config: RulesConfig) -> Subject:
    """What the alert's condition is asked of."""
    if entry.signal in _STATES:
        return _STATES[entry.signal](config)
    chosen = next(signal for signal in recorded_signals(config) if signal.name == entry.signal)
    return Subject(recording(config).signal(chosen), Level.INSTANCE.labels, lasting=_lasting(entry, chosen, config))


def _lasting(entry: Alert, chosen: Signal, config: RulesConfig) -> tuple[str, ...]:
    if not entry.long_window:
        return ()
    value = recording(config, LONG).signal(chosen)
    return (f"{value} {entry.comparison.value} {number(config.threshold(entry))}",)


def _up(config: RulesConfig) -> str:
    return f"up{{{vllm_selector(config)}}}"


def _sidecar(config: RulesConfig) -> str:
    return f"job={quoted(config.specwatch_job)}"


def _target_up(config: RulesConfig) -> Subject:
    return Subject(_up(config), ("job", INSTANCE_LABEL))


def _targets_absent(config: RulesConfig) -> Subject:
    # absent() knows no labels of what a comparison leaves.
    job = quoted(config.vllm_job.replace("$", "$$"))  # a lone $ would name a group of the pattern
    return Subject(f'label_replace(absent({_up(config)} == 1), "job", {job}, "", "")', ("job",), target="job")


def _sidecar_up(config: RulesConfig) -> Subject:
    return Subject(f"up{{{_sidecar(config)}}}", ("job", INSTANCE_LABEL), on_dashboard=False)


def _sidecar_scrape_rate(config: RulesConfig) -> Subject:
    rate = f"rate(specwatch_scrapes_total{{{_sidecar(config)}}}[{duration(config.scaled(config.rate_window))}])"
    return Subject(f"max by (job, instance) ({rate})", ("job", INSTANCE_LABEL), on_dashboard=False)


def _sidecar_absent(config: RulesConfig) -> Subject:
    up = f"up{{{_sidecar(config)}}}"
    before = f"count (last_over_time({up}[{duration(config.scaled(MEMORY))}]))"
    return Subject(f"absent({up})", ("job",), target="job", on_dashboard=False, guards=(f"on () {before}",))


def _told_by_sidecar(state: str, config: RulesConfig) -> Subject:
    """A state that the sidecar tells, under the labels of its server, so that routes and inhibitions meet it.

    The sidecar calls a target by host and port, as Prometheus does, unless it was given another name.
    """
    told = f"specwatch_{state}{{{_sidecar(config)}}}"
    of_server = f'label_replace({told}, "instance", "$1", "target", "(.+)")'
    job = quoted(config.vllm_job.replace("$", "$$"))
    of_job = f'label_replace(\n    {of_server},\n    "job", {job}, "", ""\n  )'
    labels = Level.INSTANCE.labels
    return Subject(f"max by ({', '.join(labels)}) (\n  {of_job}\n)", labels)


def _last_position_worth(config: RulesConfig) -> Subject:
    """As ``signals.speedup.last_position_worth``: the last position has the smallest rate."""
    names, labels = recording(config), Level.INSTANCE.labels
    rates, by = names.signal(signal("position_acceptance")), f"by ({', '.join(labels)})"
    drafted = f"{names.signal(signal('draft_length'))} >= count {by} ({rates}) - {number(UNDRAFTED)}"
    return Subject(f"min {by} ({rates}) / {number(config.draft_cost)}", labels, guards=(drafted,))


def _share_of_last_week(config: RulesConfig) -> Subject:
    level, week = Level.MODEL, duration(config.scaled(WEEK))

    def now_and_then(name: str) -> str:
        chosen = signal(name)
        now, usual = (recording(config, window).signal(chosen, level) for window in (LONG, TREND))
        return f"{now} / ({usual} offset {week} > 0)"

    same_k = f"abs({now_and_then('draft_length')} - 1) < {number(SAME_K)}"
    return Subject(now_and_then("acceptance_rate"), level.labels, target="job", guards=(same_k,), level=level)


def _share_of_model(config: RulesConfig) -> Subject:
    names, rates = recording(config), signal("position_acceptance")
    server, model = Level.INSTANCE.labels, Level.MODEL.labels
    same_model = f"on ({', '.join(model)})"

    def first(level: Level) -> str:
        return f'max by ({", ".join(level.labels)}) ({names.signal(rates, level)}{{{POSITION}="0"}})'

    enough = f"count by ({', '.join(model)}) ({first(Level.INSTANCE)}) >= {FEWEST_REPLICAS}"
    share = f"{first(Level.INSTANCE)}\n/ {same_model} group_left ()\n({first(Level.MODEL)} > 0)"
    return Subject(share, server, guards=(f"{same_model} {enough}",))


def _busiest_batch(config: RulesConfig) -> Subject:
    labels = Level.INSTANCE.labels
    running = recording(config).counter(Counter.RUNNING_SECONDS, Level.ENGINE)
    return Subject(f"max by ({', '.join(labels)}) ({running})", labels)


def _servers_without_metrics(config: RulesConfig) -> Subject:
    """Nothing usable in the whole job, idle or not unless it is known to be; or of a model that had it a day ago."""
    selector, running = vllm_selector(config), GAUGES[Counter.RUNNING_SECONDS]
    window, memory = (duration(config.scaled(seconds)) for seconds in (config.rate_window, MEMORY))
    usable = (
        f"{SERIES[Counter.DRAFT_TOKENS][0]}{{{selector}, {V1_ONLY}}}",
        f"{V0_EFFICIENCY}{{{selector}}}",
    )
    now = " or ".join(usable)
    before = " or ".join(f"last_over_time({series}[{memory}])" for series in usable)
    nowhere = (
        f"count by (job) ({_up(config)} == 1)\n"
        f"unless on (job) ({now})\n"
        f"unless on (job) (sum by (job) (avg_over_time({running}{{{selector}}}[{window}])) == 0)"
    )
    lost = (
        f"count by (job, model_name) ({running}{{{selector}}})\n"
        f"and on (job, model_name) ({before})\n"
        f"and on (job) ({now})\n"
        f"unless on (job, model_name) ({now})"
    )
    return Subject(f"({nowhere}\nor\n{lost})", ("job",), target="job")


def _mangled_series(config: RulesConfig) -> Subject:
    series = f'{{__name__=~"{MANGLED}({MANGLED_FAMILIES})", {vllm_selector(config)}}}'
    return Subject(f"count by (job, instance) ({series})", ("job", INSTANCE_LABEL))


_STATES: Mapping[str, Callable[[RulesConfig], Subject]] = {
    "target_up": _target_up,
    "drift_score": partial(_told_by_sidecar, "drift_score"),
    "known_speedup": partial(_told_by_sidecar, "known_speedup"),
    "losslessness_distorted": partial(_told_by_sidecar, "losslessness_distorted"),
    "last_position_worth": _last_position_worth,
    "share_of_last_week": _share_of_last_week,
    "share_of_model": _share_of_model,
    "busiest_batch": _busiest_batch,
    "servers_without_metrics": _servers_without_metrics,
    "targets_absent": _targets_absent,
    "mangled_series": _mangled_series,
    "sidecar_up": _sidecar_up,
    "sidecar_scrape_rate": _sidecar_scrape_rate,
    "sidecar_absent": _sidecar_absent,
}
"""By the name in the catalogue's STATES and OUTSIDE_STATES."""
