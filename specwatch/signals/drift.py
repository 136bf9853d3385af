"""Has acceptance left its own normal, since when, by how much? A sequential test on over-dispersed counts.

Traffic is cut into blocks. The first ones make the reference (``drift_reference``); every later one adds evidence for a
fall and for a rise (``drift_evidence``), and all of them together for a slow decay (``drift_trend``). Only falls alarm.
docs/drift.md has the reasons and what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from specwatch.signals.drift_evidence import CEILING, EVIDENCE, Change, Evidence
from specwatch.signals.drift_reference import Block, Reference
from specwatch.signals.drift_trend import Trend

__all__ = ["CEILING", "EVIDENCE", "DriftDetector", "DriftReading", "DriftSettings"]

REFERENCE_BLOCKS = 5760
"""Blocks after which the reference learns no more: a day of 15-second blocks."""

HELD_BACK = 8
"""The reference learns in portions of an eighth of itself, and each only after the next one looked healthy too: what
a change brought is still outside when the change shows."""

FIRST_HOUR = 240
"""Blocks from which on a portion is also as much as it takes to find a change by five points, which may be long on a
quiet server. Before, the reference needs whatever there is."""

UNDER_WAY = 0.65
"""Score from which a change is told of: by then it is a few thousand to one, e^(0.65 · EVIDENCE), or twenty to one for
a slow one."""

QUIET = 0.35
"""Score below which the reference learns another portion: what chance makes of it most of the time. Above, portions are
kept waiting and not dropped: a reference that leaves out low spells that were chance comes out too high, and finds
ever more of them."""

MOST_MOMENTS = 240.0
"""Counted of a block: an hour. Those of a day without traffic would look like a change under way by their number."""

MOST_TOKENS = 1e12
"""Draft tokens between two scrapes that are believed: a million a second for eleven days."""

STATE_VERSION = 3


@dataclass(frozen=True)
class DriftSettings:
    """How traffic is cut into blocks and how long the reference is learned."""

    block_seconds: float = 15.0
    """Least duration of a block."""
    block_drafts: float = 30.0
    """Least drafts in a block."""
    block_trials: float = 12.0
    """Least information in a block, in binomial trials that are worth as much (draft tokens over dispersion): one or
    two requests are no sample. Holds once the dispersion was learned."""
    learn_blocks: int = 40
    """Blocks before there is a score: ten minutes of traffic. The reference goes on learning while all is well."""


@dataclass(frozen=True)
class DriftReading:
    """What the detector says after an update."""

    score: float | None
    """Evidence of a fall: 1 raises the alarm, CEILING is the most. None while learning."""
    reference: float | None
    """The acceptance rate taken as normal. None while learning."""
    since: float | None
    """When the change under way began, unix seconds: the likeliest moment. None where there is no change."""
    learned: float
    """Share learned of what it takes to have a score, 0 to 1."""
    direction: str | None = None
    """``fell`` or ``rose`` while a change is under way."""
    rise_score: float | None = None
    """Evidence of a rise, on the same scale; it alarms nobody."""
    change: float | None = None
    """Acceptance rate since ``since``, less the reference: -0.1 is a fall by ten points."""
    change_low: float | None = None
    change_high: float | None = None
    """95 % interval of ``change``, over-dispersion and the reference's own error counted."""
    dispersion: float | None = None
    """Variance of a block's accepted tokens over the binomial one."""
    regime_since: float | None = None
    """When what the reference holds for (K, method, release) began to be seen, unix seconds."""
    reference_name: str | None = None
    """What a person called the reference."""
    frozen: bool = False
    """Whether the reference was fixed by hand."""

    @property
    def alarmed(self) -> bool:
        """Whether acceptance has fallen from its normal, and has not come back."""
        return self.score is not None and self.score >= 1.0


class DriftDetector:
    """Feed it every interval's counts. What it remembers does not grow."""

    def __init__(self, settings: DriftSettings | None = None) -> None:
        self._settings = settings or DriftSettings()
        self._regime: Hashable = None
        self._regime_text = repr(None)
        self._regime_since: float | None = None
        self.relearn()

    def relearn(self) -> None:
        """Forget the reference and learn what comes from now on: the way to accept a new level."""
        self._reference, self._waiting, self._recent = Reference(), Reference(), Reference()
        self._falls, self._rises, self._trend = Evidence(sign=-1.0), Evidence(sign=1.0), Trend()
        self._frozen = False
        self._name: str | None = None
        self._clear_block()

    def freeze(self, name: str) -> None:
        """Keep the present reference as it is, under a name. ValueError while there is none."""
        if not self._has_learned:
            raise ValueError("there is no reference to freeze yet: it is still being learned")
        self._frozen, self._name = True, name
        self._forget_trend()
        self._waiting, self._recent = Reference(), Reference()

    def update(
        self,
        at: float,
        seconds: float,
        drafts: float,
        draft_tokens: float,
        accepted: float,
        regime: Hashable = None,
    ) -> DriftReading:
        """Take in what happened in the ``seconds`` before ``at``; counts that contradict each other are left out.

        ``regime`` is whatever makes acceptance incomparable when it changes (K, method, release): a new one starts a
        new reference instead of an alarm, also in place of a frozen one.
        """
        if regime != self._regime or self._regime_since is None:
            self._enter(regime, at - seconds)
        if not (0 <= accepted <= draft_tokens <= MOST_TOKENS and drafts >= 0):
            return self.reading()
        self._seconds += seconds
        self._drafts += drafts
        self._draft_tokens += draft_tokens
        self._accepted += accepted
        if self._block_is_full():
            self._close_block(at)
        return self.reading()

    def reading(self) -> DriftReading:
        """The present state."""
        if not self._has_learned:
            share = self._reference.blocks / self._settings.learn_blocks
            return DriftReading(None, None, None, share, regime_since=self._regime_since)
        fall, rise = self._falls.score, self._rises.score
        direction, change = self._under_way(fall, rise)
        return DriftReading(
            score=fall,
            reference=self._reference.rate,
            since=change.since if change else None,
            learned=1.0,
            direction=direction,
            rise_score=rise,
            change=change.points if change else None,
            change_low=change.points - change.margin if change else None,
            change_high=change.points + change.margin if change else None,
            dispersion=self._dispersion,
            regime_since=self._regime_since,
            reference_name=self._name,
            frozen=self._frozen,
        )

    def state(self) -> dict[str, Any]:
        """Everything it knows, for JSON and ``restore``."""
        return {
            "version": STATE_VERSION,
            "settings": asdict(self._settings),
            "regime": self._regime_text,
            "regime_since": self._regime_since,
            "frozen": self._frozen,
            "name": self._name,
            "block": [self._seconds, self._drafts, self._draft_tokens, self._accepted],
            "references": [part.state() for part in (self._reference, self._waiting, self._recent)],
            "evidence": [self._falls.state(), self._rises.state()],
            "trend": self._trend.state(),
        }

    @classmethod
    def restore(cls, settings: DriftSettings, state: Mapping[str, Any]) -> DriftDetector:
        """The detector that told ``state``. ValueError, saying why, where it cannot go on from that."""
        detector = cls(settings)
        try:
            if state["version"] != STATE_VERSION:
                raise ValueError(f"it is of version {state['version']!r}, not {STATE_VERSION}")
            if state["settings"] != asdict(settings):
                raise ValueError("it was learned with other settings")
            detector._take(state)
        except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError) as problem:
            raise ValueError(f"the state of drift cannot be used: {problem}") from None
        return detector

    def _take(self, state: Mapping[str, Any]) -> None:
        block = [float(value) for value in state["block"]]
        self._seconds, self._drafts, self._draft_tokens, self._accepted = block
        self._reference, self._waiting, self._recent = (Reference.restore(part) for part in state["references"])
        self._falls.restore(state["evidence"][0])
        self._rises.restore(state["evidence"][1])
        self._trend = Trend.restore(state["trend"])
        since, name = state["regime_since"], state["name"]
        self._regime_text = str(state["regime"])
        self._regime_since = None if since is None else float(since)
        self._frozen, self._name = bool(state["frozen"]), None if name is None else str(name)
        self._regime = _Unknown(self._regime_text)
        if not all(math.isfinite(value) for value in _numbers(state)):
            raise ValueError("it holds numbers that are not finite")
        if self._has_learned:
            self._tune()

    def _enter(self, regime: Hashable, began: float) -> None:
        text = repr(regime)
        if text != self._regime_text or self._regime_since is None:
            self._regime_since = began
            self.relearn()
        self._regime, self._regime_text = regime, text

    @property
    def _has_learned(self) -> bool:
        return self._reference.blocks >= self._settings.learn_blocks

    def _clear_block(self) -> None:
        self._seconds = self._drafts = self._draft_tokens = self._accepted = 0.0

    def _block_is_full(self) -> bool:
        settings = self._settings
        if self._seconds < settings.block_seconds or self._drafts < settings.block_drafts or self._draft_tokens <= 0:
            return False
        return not self._has_learned or self._draft_tokens >= settings.block_trials * self._dispersion

    def _close_block(self, at: float) -> None:
        moments = min(max(1.0, self._seconds / self._settings.block_seconds), MOST_MOMENTS)
        block, began = Block(self._draft_tokens, self._accepted, moments), at - self._seconds
        self._clear_block()
        if not self._has_learned:
            self._reference.learn(block)
            self._trend.add(began, moments, block.draft_tokens, block.accepted)
            if self._has_learned:
                self._recent = Reference(following=self._reference)
                self._tune()
            return
        for evidence in (self._falls, self._rises):
            evidence.add(began, block, self._reference)
        if not self._frozen:
            self._watch_trend(began, block)
            self._refine(block)

    def _watch_trend(self, began: float, block: Block) -> None:
        """Look for a slow decay. Where one is found, the reference is what was before it."""
        if self._falls.changed or self._rises.changed:
            self._forget_trend()
        elif self._trend.add(began, block.moments, block.draft_tokens, block.accepted):
            line = self._trend.line(self._dispersion)
            if self._falls.lean(line) and line:
                self._reference.move(line.level)
                self._tune()

    def _forget_trend(self) -> None:
        self._trend = Trend()
        self._falls.lean(None)

    def _refine(self, block: Block) -> None:
        """Let the reference learn from what came before the last portion, while little speaks of a change."""
        if self._falls.changed or self._rises.changed:
            # What a change brought is no normal, and some of it may be in hand already.
            self._waiting, self._recent = Reference(), Reference()
            return
        if self._reference.blocks >= REFERENCE_BLOCKS:
            return
        self._recent.learn(block)
        if self._recent.blocks >= self._portion and max(self._falls.score, self._rises.score) < QUIET:
            self._reference.merge(self._waiting)
            self._waiting, self._recent = self._recent, Reference(following=self._recent)
            self._tune()

    def _tune(self) -> None:
        self._dispersion = self._reference.dispersion
        self._falls.tune(self._reference)
        self._rises.tune(self._reference)
        blocks = self._reference.blocks
        held_back = self._falls.blocks_needed(self._reference) if blocks >= FIRST_HOUR else 0.0
        self._portion = max(blocks / HELD_BACK, min(held_back, blocks))

    def _under_way(self, fall: float, rise: float) -> tuple[str | None, Change | None]:
        if max(fall, rise) < UNDER_WAY:
            return None, None
        falling = fall >= rise
        change = (self._falls if falling else self._rises).change(self._reference)
        return ("fell" if falling else "rose"), change


class _Unknown:
    """Stands for a regime of which only the text was kept: equal to none, so that the text decides."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _numbers(state: Any) -> list[float]:
    """Every number in a JSON value."""
    if isinstance(state, (float, int)):
        return [float(state)]
    if isinstance(state, (list, tuple)):
        return [number for part in state for number in _numbers(part)]
    return [number for part in state.values() for number in _numbers(part)] if isinstance(state, Mapping) else []
