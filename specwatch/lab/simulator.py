"""A vLLM server that exists only as numbers: scripted traffic in, the /metrics page that vLLM would show out.

A ``SimulatedServer`` has no clock and no socket: ``advance(seconds)`` moves it, and the same seed and script give the
same page again. ``specwatch.lab.fleet`` serves many of them over HTTP.

    server = SimulatedServer("replica-0", traffic=HOME, running=8, seed=1)
    server.advance(60)
    server.traffic = FOREIGN      # or a script of phases
    server.advance(60)
    print(server.page(), server.truth())
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

from specwatch.errors import InputError
from specwatch.lab import metrics_page, simulated_snapshot
from specwatch.lab.metrics_page import Shape, Values
from specwatch.lab.scenario import HOME, Failure, Phase, Traffic, demo_script
from specwatch.lab.simulated_dialects import ENGINES
from specwatch.lab.simulated_engine import Engine, Load, Schedule, StepCost
from specwatch.lab.simulated_frontend import Frontend
from specwatch.lab.truth import Truth
from specwatch.vllm.metrics import Snapshot

EPOCH = 1_800_000_000.0
"""Unix time at which a server first starts unless told otherwise: any fixed moment, so that pages repeat."""


MAX_MODEL_LEN = 1024
"""The captured servers' context length, on which their pages' token boundaries depend."""


class SimulatedServer:
    """A server of one model, driven by a script of phases or by setting ``traffic``, ``running`` and so on.

    ``release`` is a vLLM version of ``simulated_dialects.ENGINES``. ``k`` is num_speculative_tokens, ``None`` when
    speculation is not configured. ``engines`` is the data parallel size. ``schedule`` makes K depend on the batch size.
    ``running`` and ``waiting`` count requests of the whole server. ``epoch`` is the unix time of the first start.

    ``now`` is simulated seconds since that start. What is set takes effect from ``now`` on; requests that already run
    finish as what they were.
    """

    def __init__(
        self,
        name: str,
        *,
        model_name: str = "meta-llama/Llama-3.1-70B-Instruct",
        release: str = "0.32.0",
        k: int | None = 5,
        engines: int = 1,
        traffic: Traffic = HOME,
        running: int = 4,
        waiting: int = 0,
        script: Sequence[Phase] = (),
        schedule: Schedule = (),
        cost: StepCost | None = None,
        log_stats: bool = True,
        seed: int = 0,
        epoch: float = EPOCH,
    ) -> None:
        self.name = name
        self.model_name = model_name
        self.release = release
        self._k = _checked_k(name, k)
        self.traffic = traffic
        self.running = running
        self.waiting = waiting
        self.drafting = True
        self.failure = Failure.NONE
        self.script = tuple(script)
        self.phase: Phase | None = None
        self.now = 0.0
        self._engine_type = _engine_type(release, engines)
        self.frontend = Frontend(self._engine_type.page)
        self._schedule = schedule
        self.cost = cost or StepCost()
        self._log_stats = log_stats
        self._epoch = epoch
        # one source an engine: what one draws must not move the others
        self._sources = [random.Random(f"{seed}/{name}/{index}") for index in range(engines)]  # noqa: S311 (a simulation)
        self._past = [Truth()] * engines
        self._started = 0.0
        self._phase_index = 0
        self._phase_end = math.inf
        self._engines = self._new_engines()
        if self.script:
            self._enter(0)

    def advance(self, seconds: float) -> None:
        """Live through ``seconds`` of simulated time, entering the script's phases on the way."""
        end = self.now + seconds
        while self.now < end:
            stop = min(end, self._phase_end)
            self._run_until(stop)
            self.now = stop
            if stop == self._phase_end:
                self._enter(self._phase_index + 1)

    def enter(self, name: str) -> None:
        """Enter the script's first phase of that name now, whichever was going on."""
        for index, phase in enumerate(self.script):
            if phase.name == name:
                self._enter(index)
                return
        known = ", ".join(sorted({phase.name for phase in self.script})) or "none"
        raise InputError(f"simulated server {self.name!r} has no phase {name!r}; its phases: {known}")

    def apply(self, phase: Phase) -> None:
        """Let what ``phase`` says hold from now on, outside the script's order."""
        self.traffic = self.traffic if phase.traffic is None else phase.traffic
        self.running = self.running if phase.running is None else phase.running
        self.waiting = self.waiting if phase.waiting is None else phase.waiting
        self.drafting = self.drafting if phase.drafting is None else phase.drafting
        self.failure = self.failure if phase.failure is None else phase.failure
        if phase.k is not None:
            self.redeploy(k=phase.k or None)
        elif phase.restart:
            self.restart()

    def restart(self) -> None:
        """Start the process anew: counters from zero, a new start time, the running requests lost."""
        self._past = list(self.truth_by_engine())
        self._started = self.now
        self.frontend = Frontend(self._engine_type.page)
        self._engines = self._new_engines()

    def redeploy(self, *, k: int | None) -> None:
        """Restart with another K, or with speculation no longer configured (``None``)."""
        self._k = _checked_k(self.name, k)
        self.restart()

    @property
    def k(self) -> int | None:
        """K as configured; ``redeploy`` changes it."""
        return self._k

    @property
    def process_start(self) -> float:
        """Unix time at which the process on the page started."""
        return self._epoch + self._started

    @property
    def unix_time(self) -> float:
        """Simulated unix time."""
        return self._epoch + self.now

    def truth_by_engine(self) -> tuple[Truth, ...]:
        """What each engine really did since it first started, restarts or not."""
        return tuple(past + engine.tally.truth() for past, engine in zip(self._past, self._engines, strict=True))

    def truth(self) -> Truth:
        """What the whole server really did since it first started."""
        return reduce(add, self.truth_by_engine())

    def page(self) -> str:
        """The text of /metrics."""
        shape = Shape(
            page=self._engine_type.page,
            model_name=self.model_name,
            engines=len(self._engines),
            positions=self.k or 0,
            multiprocess=self._engine_type.multiprocess,
            absent=self._absent(),
        )
        values = [engine.values(self.unix_time) for engine in self._engines]
        return metrics_page.render(shape, values, self._process_values())

    def snapshot(self) -> Snapshot:
        """What ``read_page`` makes of the page, at a hundredth of the cost; for the V1 engine."""
        return simulated_snapshot.snapshot(self.model_name, self.process_start, self._engines)

    def models(self) -> Mapping[str, object]:
        """What /v1/models answers; the draft is not on it."""
        model = {
            "id": self.model_name,
            "object": "model",
            "created": int(self.process_start),
            "owned_by": "vllm",
            "root": self.model_name,
            "parent": None,
            "max_model_len": MAX_MODEL_LEN,
        }
        return {"object": "list", "data": [model]}

    def _new_engines(self) -> list[Engine]:
        return [
            self._engine_type(
                source=source,
                cost=self.cost,
                k=self.k or 0,
                schedule=self._schedule,
                time=self.now,
                finished=self.frontend.completed,
            )
            for source in self._sources
        ]

    def _run_until(self, stop: float) -> None:
        count = len(self._engines)
        for index, engine in enumerate(self._engines):
            # what does not divide evenly goes to the first engines
            running, waiting = ((total + count - 1 - index) // count for total in (self.running, self.waiting))
            engine.run_until(stop, Load(self.traffic, running, waiting, self.drafting))

    def _enter(self, index: int) -> None:
        if index >= len(self.script):
            self._phase_end = math.inf
            return
        self._phase_index = index
        self.phase = self.script[index]
        self._phase_end = self.now + self.phase.seconds
        self.apply(self.phase)

    def _absent(self) -> frozenset[str]:
        names = [family.name for family in metrics_page.families(self._engine_type.page)]
        if not self._log_stats:
            return self.frontend.absent().union(name for name in names if name.startswith("vllm:"))
        not_configured = [] if self.k else [name for name in names if "spec_decode" in name]
        return self.frontend.absent().union(not_configured, *(engine.absent() for engine in self._engines))

    def _process_values(self) -> Values:
        uptime = self.now - self._started
        scalars = {
            metrics_page.CREATED: self.process_start,
            "process_start_time_seconds": self.process_start,
            "process_cpu_seconds_total": Frontend.CPU_SHARE * uptime,
        }
        return Values({**scalars, **self.frontend.scalars()}, self.frontend.histograms())


def demo_fleet(
    *,
    replicas: int = 3,
    drifting: int | None = None,
    seconds: float = math.inf,
    seed: int = 0,
    epoch: float = EPOCH,
) -> list[SimulatedServer]:
    """Replicas of one model at home, with the phases ``healthy`` and ``foreign`` of ``demo_script`` to step through.

    ``drifting`` replicas meet the foreign traffic (all of them unless told otherwise), the last ones first. With
    ``seconds`` each phase lasts that long and the next one follows by itself.
    """
    last_at_home = replicas - (replicas if drifting is None else drifting)
    return [
        SimulatedServer(
            f"replica-{index}",
            script=demo_script(drifts=index >= last_at_home, seconds=seconds),
            seed=seed,
            epoch=epoch,
        )
        for index in range(replicas)
    ]


def _engine_type(release: str, engines: int) -> type[Engine]:
    found = ENGINES.get(release)
    if found is None:
        raise InputError(f"no simulated page for vLLM {release!r}; there are: {', '.join(ENGINES)}")
    if engines < 1 or (engines > 1 and found.multiprocess):
        raise InputError(f"a simulated vLLM {release} cannot run {engines} engines")
    return found


def _checked_k(name: str, k: int | None) -> int | None:
    if k is not None and k < 1:
        raise InputError(f"simulated server {name!r}: K must be 1 or more, or None without speculation, not {k}")
    return k
