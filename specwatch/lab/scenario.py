"""What a simulated server lives through: kinds of requests, phases of load, failures, and the demo's script.

Everything here is data. Diurnal load, ramps and mixtures are lists of phases made by a comprehension; one bad
replica of eight is the same list given to one server only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from specwatch.errors import InputError


@dataclass(frozen=True)
class Domain:
    """A kind of request, as the draft model sees it.

    ``acceptance`` is the conditional acceptance (Leviathan's alpha): the probability that a draft token is accepted
    given that all before it were. One number holds for every position; a tuple gives one a position, and its last
    holds for the positions beyond.

    ``concentration`` is a + b of the beta law from which each request draws its own acceptance around that mean, the
    reason why counts of an interval spread far more than independent tokens would; ``math.inf`` makes all alike.

    ``prompt_tokens`` and ``output_tokens`` are means of exponential lengths, ``max_tokens`` the limit that requests
    ask for; with ``output_tokens = math.inf`` every answer runs into it.
    """

    name: str
    acceptance: float | tuple[float, ...]
    concentration: float = 20.0
    prompt_tokens: float = 100
    output_tokens: float = 150
    max_tokens: int = 400

    def __post_init__(self) -> None:
        means = self.acceptance if isinstance(self.acceptance, tuple) else (self.acceptance,)
        if not means or not all(0 <= mean <= 1 for mean in means):
            raise InputError(f"domain {self.name!r}: acceptance must hold probabilities, not {self.acceptance!r}")
        if self.concentration <= 0:
            raise InputError(f"domain {self.name!r}: concentration must be above 0, not {self.concentration}")
        if min(self.prompt_tokens, self.output_tokens, self.max_tokens) < 1:
            raise InputError(f"domain {self.name!r}: requests have at least one token of each kind")

    def at(self, position: int) -> float:
        """Mean conditional acceptance at a draft position, counted from 0."""
        if isinstance(self.acceptance, tuple):
            return self.acceptance[min(position, len(self.acceptance) - 1)]
        return self.acceptance

    def survival(self, positions: int, source: random.Random) -> list[float]:
        """One request's probability of accepting positions 0 to i, for each i in turn: a draw from the domain.

        One beta draw moves all positions together: each mean is raised to the power that takes the overall mean to
        the draw. With one acceptance for all positions this is the beta law itself.
        """
        means = [self.at(position) for position in range(positions)]
        power = self._power(sum(means) / positions, source) if positions else 1.0
        survival = []
        reached = 1.0
        for mean in means:
            reached *= mean**power
            survival.append(reached)
        return survival

    def _power(self, mean: float, source: random.Random) -> float:
        if math.isinf(self.concentration) or not 0 < mean < 1:
            return 1.0
        # Next to 0 and 1 the law's parameters and its draws round to what has no law and no logarithm.
        mean = _inside(mean)
        drawn = source.betavariate(mean * self.concentration, (1 - mean) * self.concentration)
        return math.log(_inside(drawn)) / math.log(mean)


def _inside(share: float) -> float:
    """A share moved off 0 and 1."""
    return min(max(share, 1e-9), 1 - 1e-9)


Traffic = Domain | Mapping[Domain, float]
"""One kind of request, or several with their weights."""


class Failure(Enum):
    """How a server answers instead of showing its page."""

    NONE = "answers as it should"
    SERVER_ERROR = "answers 500"
    HANG = "accepts and never answers"
    TRUNCATED = "answers with half a page"
    CUT_OFF = "closes the connection in the middle of the page"
    GARBAGE = "answers 200 with something that is no metrics page"
    DOWN = "drops every connection"


@dataclass(frozen=True)
class Phase:
    """What holds from one moment on; a field left ``None`` keeps what held before.

    ``seconds`` is how long it lasts before the next phase of the script (the last one lasts for ever). ``running`` and
    ``waiting`` are requests of the whole server, shared among its engines. ``drafting=False`` is a schedule that says
    K = 0. ``restart`` and ``k`` (a redeployment with another K, 0 for none) happen at the start of the phase.
    """

    seconds: float = math.inf
    name: str = ""
    traffic: Traffic | None = None
    running: int | None = None
    waiting: int | None = None
    drafting: bool | None = None
    failure: Failure | None = None
    k: int | None = None
    restart: bool = False

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError(f"phase {self.name!r} lasts {self.seconds} s: it must last longer than 0")


# The acceptance rate r that one conditional acceptance a gives at K = 5 is (a + a^2 + ... + a^5) / 5: 0.865 and 0.301
# here. A window shows a little less, because badly drafted requests take more steps.
HOME = Domain("home", acceptance=0.952)
"""The domain that the demo's draft was made for: acceptance rate about 0.85 at K = 5."""

FOREIGN = Domain("foreign", acceptance=0.625)
"""Traffic that the demo's draft does not know: acceptance rate about 0.3 at K = 5."""

DEMO_RUNNING = 32
"""Requests at once on a demo server: with the default StepCost, verifying is bound by arithmetic here, so that
speculation is worth nearly 2 at home and less than 1 on foreign traffic."""


def demo_script(drifts: bool, seconds: float = math.inf) -> tuple[Phase, ...]:
    """Phases ``healthy``, ``foreign``, ``healthy`` of one demo server; one that doesn't drift stays at home.

    With ``seconds`` the phases follow each other; without, step them with ``enter("foreign")``.
    """
    away = FOREIGN if drifts else HOME
    return (
        Phase(seconds, "healthy", HOME, running=DEMO_RUNNING),
        Phase(seconds, "foreign", away, running=DEMO_RUNNING),
        Phase(math.inf, "healthy", HOME, running=DEMO_RUNNING),
    )
