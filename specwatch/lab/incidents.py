"""Incidents with a known cause, and healthy servers that look ill: what a diagnosis is judged by.

An incident is one simulated server or several replicas, each with a script, and the finding that its subject deserves.
Times are written as they would be in life and multiplied by ``SCALE``, as rehearsals do everywhere here: counts an
interval are then those of a server with little traffic, the harder case.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from specwatch.lab.scenario import Domain, Phase, Traffic
from specwatch.lab.simulated_engine import Schedule, StepCost
from specwatch.lab.simulator import SimulatedServer

SCALE = 0.05
"""Simulated seconds for a second of the story: a window of five minutes lasts fifteen seconds."""

MINUTE = 60.0 * SCALE

NORMAL = 30 * MINUTE
"""How long a server is normal before anything happens: acceptance and requests have their references then."""

AFTER = 15 * MINUTE
"""How long after it happened the diagnosis is read: three windows of five minutes."""

SUBJECT = "replica-0"


@dataclass(frozen=True)
class Incident:
    """What happens, and what should be said of it."""

    kind: str
    expected: frozenset[str]
    """Codes of the finding that may come first for the subject."""
    servers: tuple[SimulatedServer, ...]
    seconds: float
    """When to read the diagnosis, in simulated time."""
    subject: str = SUBJECT
    schedule: Schedule = ()
    """The schedule as the sidecar knows it."""
    calibrated: bool = False
    """Whether the sidecar knows what a step costs at each batch size."""
    released: Mapping[float, str] = field(default_factory=dict)
    """Release of vLLM that the subject answers with, from a time on."""


def _alphas(rate: float, k: int) -> float:
    """The conditional acceptance, the same at all positions, that gives an acceptance rate at K = ``k``."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if acceptance_rate(middle, k) < rate else (low, middle)
    return low


def acceptance_rate(alpha: float, k: int) -> float:
    """Acceptance rate at K = ``k`` with the same conditional acceptance at all positions."""
    return sum(alpha**position for position in range(1, k + 1)) / k


@dataclass(frozen=True)
class Setting:
    """A deployment before anything happens: drawn at random, healthy."""

    source: random.Random
    k: int
    rate: float
    """Acceptance rate."""
    domain: Domain
    running: int
    cost: StepCost

    @classmethod
    def draw(cls, source: random.Random, lowest: float = 0.45, highest: float = 0.88) -> Setting:
        """One of the deployments that people run: K, load and acceptance vary, and speculation pays."""
        k = source.choice([3, 4, 5, 7])
        rate = source.uniform(lowest, highest)
        domain = Domain(
            "home",
            acceptance=_alphas(rate, k),
            concentration=source.choice([10.0, 20.0, 50.0]),
            prompt_tokens=source.uniform(30, 120),
            output_tokens=source.uniform(60, 180),
            max_tokens=400,
        )
        return cls(source, k, rate, domain, source.choice([2, 3, 4, 6, 8]), StepCost())

    def server(self, script: list[Phase], index: int = 0, **options: object) -> SimulatedServer:
        """One replica."""
        arguments: dict[str, object] = {
            "k": self.k,
            "traffic": self.domain,
            "running": self.running,
            "cost": self.cost,
            "seed": self.source.randrange(2**32),
        } | options
        return SimulatedServer(f"replica-{index}", script=script, **arguments)  # type: ignore[arg-type]

    def worse(self, points: float, prompt_tokens: float | None = None) -> Domain:
        """Traffic that this draft fits worse, by points of the acceptance rate."""
        acceptance = _alphas(max(self.rate - points, 0.08), self.k)
        return replace(
            self.domain,
            name="worse",
            acceptance=acceptance,
            prompt_tokens=self.domain.prompt_tokens if prompt_tokens is None else prompt_tokens,
        )

    def fall(self) -> float:
        """Points by which acceptance falls in an incident: 15 to 35, and never to next to nothing."""
        return min(self.source.uniform(0.15, 0.35), self.rate - 0.12)


def _from_home(setting: Setting, *phases: Phase) -> list[Phase]:
    return [Phase(NORMAL, "normal", setting.domain, running=setting.running), *phases]


def _restarted_before(setting: Setting, *phases: Phase) -> list[Phase]:
    """The same, where every third server had a restart that has nothing to do with it."""
    if setting.source.random() < 2 / 3:
        return _from_home(setting, *phases)
    return [
        Phase(NORMAL / 2, "normal", setting.domain, running=setting.running),
        Phase(NORMAL / 2, "restarted", restart=True),
        *phases,
    ]


def _one(
    kind: str, expected: str, server: SimulatedServer, seconds: float = NORMAL + AFTER, **more: object
) -> Incident:
    return Incident(kind, frozenset(expected.split()), (server,), seconds, **more)  # type: ignore[arg-type]


def _fleet_changes_domain(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    longer = source.random() < 0.5
    worse = setting.worse(setting.fall(), setting.domain.prompt_tokens * (3 if longer else 1))
    servers = [
        setting.server(_from_home(setting, Phase(traffic=worse)), index) for index in range(source.choice([2, 3, 5]))
    ]
    return Incident("traffic changed, fleet", frozenset({"traffic-changed"}), tuple(servers), NORMAL + AFTER)


def _one_server_changes_domain(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    factor = source.choice([0.25, 3.0, 5.0])
    worse = setting.worse(setting.fall(), prompt_tokens=max(setting.domain.prompt_tokens * factor, 4.0))
    return _one(
        "traffic changed, one server",
        "traffic-changed",
        setting.server(_restarted_before(setting, Phase(traffic=worse))),
    )


def _nobody_can_tell(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    worse = setting.worse(setting.fall())
    return _one(
        "one server, prompts alike", "drifted", setting.server(_restarted_before(setting, Phase(traffic=worse)))
    )


def _one_replica_off(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    worse = setting.worse(setting.fall())
    servers = [setting.server(_from_home(setting, Phase(traffic=worse)))]
    servers += [setting.server(_from_home(setting), index) for index in range(1, source.choice([2, 3, 5]))]
    return Incident("one replica off", frozenset({"replica-off"}), tuple(servers), NORMAL + AFTER)


def _load(source: random.Random, calibrated: bool) -> Incident:
    while True:
        setting = Setting.draw(source)
        loaded = source.choice([32, 48, 64, 96])
        length = 1 + setting.k * setting.rate
        if setting.cost.speedup(length, loaded, setting.k) <= 0.8:
            break
    server = setting.server(_from_home(setting, Phase(running=loaded)))
    kind = "load past break-even, calibrated" if calibrated else "load past break-even, counters only"
    return _one(kind, "load-past-break-even", server, calibrated=calibrated)


def _load_counters_only(source: random.Random) -> Incident:
    return _load(source, calibrated=False)


def _load_calibrated(source: random.Random) -> Incident:
    return _load(source, calibrated=True)


def _k_too_long(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    k = source.choice([5, 7, 8])
    good = source.choice([1, 2, 3])
    late = source.uniform(0.02, 0.15)
    acceptance = (*[source.uniform(0.55, 0.9)] * good, *[late] * (k - good))
    domain = replace(setting.domain, acceptance=acceptance)
    return _one("K too long", "k-too-long", setting.server([Phase(traffic=domain)], k=k))


def _decays(source: random.Random) -> Incident:
    setting = Setting.draw(source, lowest=0.55)
    fall, minutes = min(source.uniform(0.15, 0.35), setting.rate - 0.15), 60
    levels_off = source.random() < 0.5
    phases = []
    for minute in range(minutes):
        share = (1 - math.exp(-4 * minute / minutes)) if levels_off else minute / minutes
        phases.append(Phase(MINUTE, traffic=setting.worse(fall * share), restart=minute == 0))
    return _one(
        "draft decays since restart",
        "draft-decays",
        setting.server(_from_home(setting, *phases)),
        NORMAL + minutes * MINUTE,
    )


def _off_by_schedule(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    limit = source.choice([8, 10, 12])
    schedule = [(1, limit, setting.k), (limit + 1, limit + 1, 0)]
    server = setting.server(_from_home(setting, Phase(running=limit + source.choice([4, 8, 16]))), schedule=schedule)
    known = schedule if source.random() < 0.5 else ()
    return _one("off by schedule", "off-by-schedule", server, schedule=known)


def _off(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    return _one("off, no schedule", "not-drafting", setting.server(_from_home(setting, Phase(drafting=False))))


def _deployed(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    worse = setting.worse(setting.fall())
    how = source.choice(["restart", "K", "release"])
    k = source.choice([k for k in (3, 4, 5, 7) if k != setting.k]) if how == "K" else None
    servers = [setting.server(_from_home(setting, Phase(traffic=worse, restart=True, k=k)))]
    if source.random() < 0.5:
        servers += [setting.server(_from_home(setting), index) for index in (1, 2)]
    return Incident(
        "deploy changed",
        frozenset({"deploy-changed"}),
        tuple(servers),
        NORMAL + AFTER,
        released={NORMAL: "0.33.0"} if how == "release" else {},
    )


def _repeats(source: random.Random) -> Incident:
    setting = Setting.draw(source, highest=0.8)
    loop = replace(setting.domain, name="loop", acceptance=0.995, concentration=200.0, output_tokens=math.inf)
    return _one("outputs repeat", "outputs-repeat", setting.server(_from_home(setting, Phase(traffic=loop))))


def _garbled(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    garbage = replace(
        setting.domain,
        name="garbage",
        acceptance=source.uniform(0.01, 0.06),
        concentration=500.0,
        output_tokens=math.inf,
    )
    servers = [setting.server(_from_home(setting, Phase(traffic=garbage)))]
    if source.random() < 0.5:
        servers += [setting.server(_from_home(setting), index) for index in (1, 2)]
    return Incident("outputs garbled", frozenset({"outputs-garbled"}), tuple(servers), NORMAL + AFTER)


def _too_little(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    trickle = replace(setting.domain, output_tokens=4, max_tokens=8)
    phases = [Phase(running=0, seconds=AFTER - 2 * MINUTE), Phase(0.1, traffic=trickle, running=1), Phase(running=0)]
    return _one("not enough traffic", "too-little-traffic no-traffic", setting.server(_from_home(setting, *phases)))


Story = Callable[[random.Random], Incident]

ILL: tuple[Story, ...] = (
    _fleet_changes_domain,
    _one_server_changes_domain,
    _nobody_can_tell,
    _one_replica_off,
    _load_counters_only,
    _load_calibrated,
    _k_too_long,
    _decays,
    _off_by_schedule,
    _off,
    _deployed,
    _repeats,
    _garbled,
    _too_little,
)
"""Every kind of incident."""


def _healthy(kind: str, *servers: SimulatedServer, seconds: float = NORMAL + AFTER) -> Incident:
    return Incident(f"healthy: {kind}", frozenset({"healthy"}), servers, seconds)


def _steady(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    return _healthy("steady replicas", *(setting.server(_from_home(setting), i) for i in range(source.choice([1, 3]))))


def _low_and_fine(source: random.Random) -> Incident:
    setting = Setting.draw(source, lowest=0.35, highest=0.5)
    return _healthy("acceptance near 0.45", setting.server(_from_home(setting)))


def _diurnal(source: random.Random) -> Incident:
    """Load that rises and falls, as far as speculation pays."""
    setting = Setting.draw(source, lowest=0.6)
    sizes = [round(2 + 5 * (1 - math.cos(2 * math.pi * step / 30))) for step in range(60)]
    script = [Phase(MINUTE, traffic=setting.domain, running=size) for size in sizes]
    return _healthy("diurnal load", setting.server(script), seconds=source.uniform(45, 60) * MINUTE)


def _quiet_night(source: random.Random) -> Incident:
    """Hours without requests, then the same traffic again."""
    setting = Setting.draw(source)
    phases = [Phase(40 * MINUTE, running=0), Phase(running=setting.running)]
    return _healthy("quiet night", setting.server(_from_home(setting, *phases)), seconds=NORMAL + 60 * MINUTE)


def _mixed(source: random.Random) -> Incident:
    """Two domains in constant shares: every request is one or the other."""
    setting = Setting.draw(source, lowest=0.55)
    mix: Traffic = {setting.domain: 0.7, setting.worse(0.25, prompt_tokens=setting.domain.prompt_tokens * 3): 0.3}
    return _healthy("two domains, constant shares", setting.server([Phase(traffic=mix)]))


def _restart(source: random.Random) -> Incident:
    setting = Setting.draw(source)
    return _healthy("restart", setting.server(_from_home(setting, Phase(restart=True))))


def _another_k(source: random.Random) -> Incident:
    setting = Setting.draw(source, lowest=0.6)
    k = source.choice([k for k in (3, 4, 5, 7) if k != setting.k])
    return _healthy("K changed", setting.server(_from_home(setting, Phase(k=k))))


def _wide(source: random.Random) -> Incident:
    """Requests that differ widely, as at a high temperature."""
    setting = Setting.draw(source)
    domain = replace(setting.domain, concentration=4.0)
    return _healthy("requests that differ widely", setting.server([Phase(traffic=domain, running=setting.running)]))


def _longer_prompts(source: random.Random) -> Incident:
    """Other requests that the draft fits as well."""
    setting = Setting.draw(source, lowest=0.55)
    longer = replace(setting.domain, name="longer", prompt_tokens=setting.domain.prompt_tokens * 3)
    return _healthy("longer prompts, same fit", setting.server(_from_home(setting, Phase(traffic=longer))))


def _busier(source: random.Random) -> Incident:
    """More requests, and speculation still pays."""
    while True:
        setting = Setting.draw(source, lowest=0.6)
        loaded = setting.running * 3
        if setting.cost.speedup(1 + setting.k * setting.rate, loaded, setting.k) >= 1.2:
            break
    return _healthy("three times the load", setting.server(_from_home(setting, Phase(running=loaded))))


HEALTHY: tuple[Story, ...] = (
    _steady,
    _low_and_fine,
    _diurnal,
    _quiet_night,
    _mixed,
    _restart,
    _another_k,
    _wide,
    _longer_prompts,
    _busier,
)
"""Healthy servers, most of which look like an incident in one respect."""
