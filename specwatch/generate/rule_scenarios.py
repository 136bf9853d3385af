"""What makes each alert fire, for promtool's tests of the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from specwatch.alerting.catalogue import Alert
from specwatch.generate.rule_traffic import (
    MODEL,
    SERVER,
    Engine,
    K,
    Phase,
    Series,
    Traffic,
    busy,
    gone,
    levels,
    named,
    target,
    up,
)
from specwatch.generate.rules_config import RulesConfig
from specwatch.vllm.metrics import GAUGES, MAX_POSITIONS, SERIES, V0_EFFICIENCY, Counter

SIDECAR = "sidecar:9108"

SIBLINGS = 3
"""Servers beside the one that is off."""


@dataclass(frozen=True)
class Firing:
    """What makes an alert fire: the series, the step at which its condition begins to hold, and what it then says."""

    series: list[Series]
    begins: int
    labels: Mapping[str, str]
    value: float = 0.0
    fields: Mapping[str, str] = field(default_factory=dict)
    """What stands in its texts for the target and the model."""


def firing(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """What makes an alert of the catalogue fire, for ``steps`` steps; KeyError for one that has no scenario."""
    return _SCENARIOS[entry.signal](entry, config, steps)


def fires_by_itself(entry: Alert) -> bool:
    """Whether the alert has a scenario here: one that looks back a week takes other steps."""
    return entry.signal in _SCENARIOS


def more_ways_to_fire(entry: Alert) -> Mapping[str, Callable[[Alert, RulesConfig, int], Firing]]:
    """Further scenarios of an alert, by what happens in them."""
    return _MORE.get(entry.signal, {})


def of_server(config: RulesConfig, instance: str = SERVER, model: str = MODEL) -> dict[str, str]:
    """Labels of what is recorded of a server."""
    return {"instance": instance, "job": config.vllm_job, "model_name": model}


def _bad_server(traffic: Traffic, steps: int, config: RulesConfig, value: float) -> Firing:
    """Traffic that is bad from the first on one of two engines, of which the other idles.

    After a third of the time the server restarts, and is no better.
    """
    engines = [Engine(_life(traffic, steps)), Engine(_life(Traffic(k=traffic.k), steps), engine="1")]
    return Firing(
        series=[series for engine in engines for series in engine.series(config)],
        begins=1,  # The first increment is between the samples of steps 0 and 1.
        labels=of_server(config),
        value=value,
        fields={"target": SERVER, "model": MODEL},
    )


def _life(traffic: Traffic, steps: int) -> Sequence[Phase]:
    return [Phase(traffic, steps // 3), Phase(traffic, steps - steps // 3, restarted=True)]


def _low_acceptance(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts = busy(config)
    accepted = int(drafts * K * config.threshold(entry) / 2)
    return _bad_server(Traffic(drafts, accepted), steps, config, accepted / (drafts * K))


def _slower_than_none(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts, c = busy(config), config.draft_cost
    k = K if 1 / (1 + K * c) < config.threshold(entry) else MAX_POSITIONS
    return _bad_server(Traffic(drafts, k=k), steps, config, 1 / (1 + k * c))


def _not_drafting(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return _bad_server(Traffic(undrafted_steps=busy(config)), steps, config, 0.0)


def _last_positions(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts, c = busy(config), config.draft_cost
    last = int(min(drafts * config.threshold(entry) * c / 2, drafts))
    traffic = Traffic.accepting(drafts, [drafts] * (K - 1) + [last])
    return _bad_server(traffic, steps, config, last / drafts / c)


def _past_limit(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    running = config.threshold(entry) * 2
    # As many steps as requests at least: no request waits a whole step of ours for its next token.
    drafts = max(busy(config), int(running) + 1)
    return _bad_server(Traffic(drafts, accepted=drafts * K, running=running), steps, config, running)


def _replica_off(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    drafts = busy(config)
    rest = [0] * (K - 1)
    first = int(drafts * config.threshold(entry) / 2)
    off = _bad_server(Traffic.accepting(drafts, [first, *rest]), steps, config, 0.0)
    good = _life(Traffic.accepting(drafts, [drafts, *rest]), steps)
    siblings = [Engine(good, f"vllm-{name}:8000") for name in "bcd"[:SIBLINGS]]
    pooled = (SIBLINGS * drafts + first) / ((SIBLINGS + 1) * drafts)
    return Firing(
        series=[*off.series, *(series for engine in siblings for series in engine.series(config))],
        begins=off.begins,
        labels=off.labels,
        value=first / drafts / pooled,
        fields=off.fields,
    )


def _drifted(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return _told_by_sidecar(entry, config, steps, before=config.threshold(entry) / 2)


def _past_break_even(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    threshold = config.threshold(entry)
    return _told_by_sidecar(entry, config, steps, before=1.5 * threshold, value=0.75 * threshold)


def _distorted(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return _told_by_sidecar(entry, config, steps, before=0.0)


def _told_by_sidecar(
    entry: Alert, config: RulesConfig, steps: int, before: float, value: float | None = None
) -> Firing:
    """A state of the sidecar that comes to ``value``; without one it reaches the threshold."""
    value = config.threshold(entry) if value is None else value
    own = {"instance": SIDECAR, "job": config.specwatch_job, "model_name": MODEL, "target": SERVER}
    return Firing(
        series=[named(f"specwatch_{entry.signal}", own, levels([(4, before), (steps - 4, value)]))],
        begins=5,
        labels=of_server(config),
        value=value,
        fields={"target": SERVER, "model": MODEL},
    )


def _metrics_absent(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """A V0 server is upgraded: its gauge goes, and no counter that names an engine comes."""
    servers = [f"vllm-{index}:8000" for index in range(int(config.threshold(entry)) + 1)]
    gauge = named(
        V0_EFFICIENCY, {"model_name": MODEL, **target(servers[0], config)}, f"{levels([(3, 0.7)])} {gone(steps - 3)}"
    )
    running = GAUGES[Counter.RUNNING_SECONDS]
    each = [
        series
        for server in servers
        for series in (
            up(server, config, (steps, 1)),
            named(running, {"model_name": MODEL, **target(server, config)}, levels([(steps, 4)])),
        )
    ]
    return Firing(
        series=[gauge, *each],
        begins=4,
        labels={"job": config.vllm_job},
        value=len(servers),
        fields={"target": config.vllm_job},
    )


def model_loses_metrics(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """A model's servers come back without metrics of speculation, beside another model's that have them."""
    drafts = busy(config)
    servers = [f"vllm-{index}:8000" for index in range(int(config.threshold(entry)))]
    had = {"engine": "0", "model_name": MODEL}
    name, running = SERIES[Counter.DRAFT_TOKENS][0], GAUGES[Counter.RUNNING_SECONDS]
    lost = [
        series
        for server in servers
        for series in (
            up(server, config, (steps, 1)),
            named(running, {**had, **target(server, config)}, levels([(steps, 4)])),
            named(name, {**had, **target(server, config)}, f"0+9x3 {gone(steps - 3)}"),
        )
    ]
    other = Engine([Phase(Traffic(drafts, drafts * K), steps)], "vllm-b:8000", model="other")
    return Firing(
        series=[*lost, up("vllm-b:8000", config, (steps, 1)), *other.series(config)],
        begins=4,
        labels={"job": config.vllm_job, "model_name": MODEL},
        value=len(servers),
        fields={"target": config.vllm_job},
    )


def no_target_ever(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """Prometheus has other jobs, and none of ours."""
    other = {"instance": "other:80", "job": f"not-{config.vllm_job}"}
    return Firing(
        series=[named("up", other, levels([(steps, 1)]))],
        begins=0,
        labels={"job": config.vllm_job},
        value=1.0,
        fields={"target": config.vllm_job},
    )


def _mangled(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    labels = {"model_name": MODEL, **target(SERVER, config)}
    count = int(config.threshold(entry))
    series = [named("vllm_generation_tokens_total", {**labels, "engine": str(i)}, f"0+9x{steps}") for i in range(count)]
    return Firing(
        series=series,
        begins=0,
        labels={"instance": SERVER, "job": config.vllm_job},
        value=count,
        fields={"target": SERVER},
    )


def _target_down(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return Firing(
        series=[up(SERVER, config, (3, 1), (steps - 3, 0)), up("vllm-b:8000", config, (steps, 1))],
        begins=4,
        labels=target(SERVER, config),
        fields={"target": SERVER},
    )


def _no_targets(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    """One server is down, the other one no longer found."""
    other = {"instance": "other:80", "job": f"not-{config.vllm_job}"}
    lost = named("up", target("vllm-b:8000", config), f"{levels([(2, 1)])} {gone(steps - 2)}")
    return Firing(
        series=[
            named("up", other, levels([(steps, 1)])),
            up(SERVER, config, (3, 1), (steps - 3, 0)),
            lost,
        ],
        begins=4,
        labels={"job": config.vllm_job},
        value=1.0,
        fields={"target": config.vllm_job},
    )


def _sidecar_down(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    own = sidecar(config)
    return Firing(
        series=[named("up", own, levels([(3, 1), (steps - 3, 0)])), up(SERVER, config, (steps, 1))],
        begins=4,
        labels=own,
        fields={"target": SIDECAR},
    )


def _sidecar_stale(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    own = sidecar(config)
    scrapes = [named("specwatch_scrapes_total", {**own, "target": name}, levels([(steps, 7)])) for name in "ab"]
    return Firing(
        series=[named("up", own, levels([(steps, 1)])), *scrapes],
        begins=1,
        labels=own,
        fields={"target": SIDECAR},
    )


def _sidecar_gone(entry: Alert, config: RulesConfig, steps: int) -> Firing:
    return Firing(
        series=[named("up", sidecar(config), f"{levels([(3, 1)])} {gone(steps - 3)}"), up(SERVER, config, (steps, 1))],
        begins=4,
        labels={"job": config.specwatch_job},
        value=1.0,
        fields={"target": config.specwatch_job},
    )


def sidecar(config: RulesConfig, instance: str = SIDECAR) -> dict[str, str]:
    """Labels that Prometheus gives to the sidecar."""
    return {"instance": instance, "job": config.specwatch_job}


_SCENARIOS: Mapping[str, Callable[[Alert, RulesConfig, int], Firing]] = {
    "acceptance_rate": _low_acceptance,
    "estimated_speedup": _slower_than_none,
    "draft_coverage": _not_drafting,
    "drift_score": _drifted,
    "known_speedup": _past_break_even,
    "losslessness_distorted": _distorted,
    "last_position_worth": _last_positions,
    "target_up": _target_down,
    "share_of_model": _replica_off,
    "busiest_batch": _past_limit,
    "servers_without_metrics": _metrics_absent,
    "targets_absent": _no_targets,
    "mangled_series": _mangled,
    "sidecar_up": _sidecar_down,
    "sidecar_scrape_rate": _sidecar_stale,
    "sidecar_absent": _sidecar_gone,
}
"""By the signal or state that the alert compares."""

_MORE: Mapping[str, Mapping[str, Callable[[Alert, RulesConfig, int], Firing]]] = {
    "servers_without_metrics": {"when one model of several loses its metrics": model_loses_metrics},
    "targets_absent": {"when there never was a target": no_target_ever},
}
