"""Drift of servers taken together: a change that all replicas share is found sooner than by any one alone."""

from __future__ import annotations

from typing import Any

from specwatch.sidecar.watch import DRIFT_COUNTERS
from specwatch.signals.drift import DriftDetector, DriftReading, DriftSettings
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter


class Pool:
    """One detector over the increments of several servers, each added as it is scraped."""

    def __init__(self, settings: DriftSettings) -> None:
        self.detector = DriftDetector(settings)
        self._settings = settings
        self._last: float | None = None
        self._regimes: dict[str, str] = {}
        self._regime = ""
        """All of them, as long as they stay."""

    def take(self, member: str, at: float, step: Increments, regime: str) -> None:
        """Add what one member did up to ``at``; members' scrapes interleave, and time counts once.

        The pool's regime is the set of its members' regimes: scaling out with more of the same is no change, the first
        server of a new release is.
        """
        if self._regimes.get(member) != regime:
            self._regimes[member] = regime
            self._unite()
        elapsed = step.seconds if self._last is None else max(0.0, at - self._last)
        self._last = at if self._last is None else max(self._last, at)
        self.detector.update(
            self._last,
            seconds=elapsed,
            drafts=step.counts[Counter.DRAFTS],
            draft_tokens=step.counts[Counter.DRAFT_TOKENS],
            accepted=step.counts[Counter.ACCEPTED_TOKENS],
            regime=self._regime,
        )

    def restore(self, state: Any) -> None:
        """Take up an earlier run's detector; ValueError where the state is none."""
        self.detector = DriftDetector.restore(self._settings, state)

    def leave(self, member: str) -> None:
        """Forget a member."""
        self._regimes.pop(member, None)
        self._unite()

    def _unite(self) -> None:
        self._regime = " | ".join(sorted(set(self._regimes.values())))

    @property
    def empty(self) -> bool:
        """Whether nobody is in it."""
        return not self._regimes


class Pools:
    """A pool for every model that is served now, and one for the whole fleet."""

    def __init__(self, settings: DriftSettings) -> None:
        self._settings = settings
        self.fleet = Pool(settings)
        self.models: dict[str, Pool] = {}
        self._model_of: dict[str, str] = {}

    def take(self, target: str, model: str, at: float, step: Increments, regime: str) -> None:
        """Add what one target did; a target that serves another model than before leaves its old pool."""
        if not step.counts.keys() >= DRIFT_COUNTERS:
            return
        if self._model_of.get(target, model) != model:
            self._leave_model(target)
        self._model_of[target] = model
        self._pool(model).take(target, at, step, regime)
        self.fleet.take(target, at, step, regime)

    def _pool(self, model: str) -> Pool:
        if model not in self.models:
            self.models[model] = Pool(self._settings)
        return self.models[model]

    def readings(self) -> dict[str, DriftReading]:
        """Every model's reading, by its name."""
        return {model: pool.detector.reading() for model, pool in self.models.items()}

    def leave(self, target: str) -> None:
        """Forget a target that is watched no more; a model that nobody serves any more is forgotten with it."""
        self.fleet.leave(target)
        self._leave_model(target)

    def _leave_model(self, target: str) -> None:
        model = self._model_of.pop(target, None)
        if model is None:
            return
        self.models[model].leave(target)
        if self.models[model].empty:
            del self.models[model]
