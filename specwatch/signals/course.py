"""A server's course: what it did so far, in blocks of time, and when it was deployed or restarted.

Words such as "since the restart" or "at twice the load" need a memory that is long and small. Blocks begin short; when
there are too many, neighbours are merged and blocks are twice as long from then on, so that a day costs as much memory
as an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specwatch.signals.window import Increments, add_up
from specwatch.vllm.metrics import Counter

KEPT = (
    Counter.DRAFTS,
    Counter.DRAFT_TOKENS,
    Counter.ACCEPTED_TOKENS,
    Counter.DECODE_STEPS,
    Counter.DECODE_STEP_SECONDS,
    Counter.RUNNING_SECONDS,
)
"""What a course is told by."""

FIRST_POSITIONS = 3
"""Draft positions kept: those that nearly every K has, which mean the same at any."""

MOST_BLOCKS = 64
"""Blocks kept, about 1 kB each. After a merge there are half as many: enough to see a course in them."""

BLOCK_SECONDS = 60.0
"""Length of a block at first: as the shortest of the windows."""

BEFORE_BLOCKS = 10
"""Blocks before a deployment that are kept to compare with what came after."""

MOST_DEPLOYMENTS = 4
"""Deployments kept; the latest one is judged."""

_JOIN = 16
"""Increments of an open block that are kept apart: adding up sixteen at once costs less than one at a time."""


@dataclass(frozen=True)
class Block:
    """What a server did over a stretch of time."""

    began: float
    ended: float
    work: Increments


@dataclass(frozen=True)
class Setup:
    """What a deployment changes. Absent: not known."""

    k: int | None = None
    method: str | None = None
    release: str | None = None

    def changes(self, new: Setup) -> tuple[str, ...]:
        """What is different in ``new``, in words; what only one of them knows is no change."""
        pairs = (("K", self.k, new.k), ("method", self.method, new.method), ("vLLM", self.release, new.release))
        return tuple(f"{name} {old} → {now}" for name, old, now in pairs if None not in (old, now) and old != now)

    def followed_by(self, new: Setup) -> Setup:
        """What is known after ``new``: a start does not tell everything at once."""
        return Setup(
            k=self.k if new.k is None else new.k,
            method=self.method if new.method is None else new.method,
            release=self.release if new.release is None else new.release,
        )


@dataclass(frozen=True)
class Deployment:
    """A server that started anew, with other settings or the same ones."""

    at: float
    changes: tuple[str, ...]
    """Settings that changed, such as ``K 5 → 3``; empty for a restart alone."""
    before: tuple[Block, ...]
    """What it did last under the old ones."""


@dataclass(frozen=True)
class CourseView:
    """What is remembered, oldest first."""

    blocks: tuple[Block, ...] = ()
    deployments: tuple[Deployment, ...] = ()

    @property
    def deployed(self) -> Deployment | None:
        """The latest deployment."""
        return self.deployments[-1] if self.deployments else None

    def since(self, at: float) -> tuple[Block, ...]:
        """Blocks that began at ``at`` or later."""
        return tuple(block for block in self.blocks if block.began >= at)

    def until(self, at: float) -> tuple[Block, ...]:
        """Blocks that ended by ``at``."""
        return tuple(block for block in self.blocks if block.ended <= at)


class Course:
    """Feed it every scrape's pooled increments."""

    def __init__(self, block_seconds: float = BLOCK_SECONDS) -> None:
        self._first_length = self._length = block_seconds
        self._blocks: list[Block] = []
        self._open: list[Increments] = []
        self._began = 0.0
        self._deployments: list[Deployment] = []
        self._setup: Setup | None = None
        self._restarts = 0

    def observe(self, at: float, work: Increments, setup: Setup, restarts: int) -> None:
        """Take in what happened in the ``work.seconds`` before ``at``.

        ``restarts`` counts those of the server so far, on any count that only grows.
        """
        self._note_deployment(at, setup, restarts)
        if not work.counts:
            return
        if not self._open:
            self._began = at - work.seconds
        self._open.append(_kept(work))
        if len(self._open) >= _JOIN:
            self._open = [_joined(self._open)]
        if at - self._began >= self._length:
            self._blocks.append(Block(self._began, at, _joined(self._open)))
            self._open = []
            if len(self._blocks) >= MOST_BLOCKS:
                self._merge()

    def view(self) -> CourseView:
        """What is remembered now."""
        return CourseView(tuple(self._blocks), tuple(self._deployments))

    def _note_deployment(self, at: float, setup: Setup, restarts: int) -> None:
        before, self._setup = self._setup, self._setup.followed_by(setup) if self._setup else setup
        restarted, self._restarts = restarts > self._restarts, restarts
        changes = before.changes(setup) if before else ()
        if before is None or not (changes or restarted):
            return
        # What was counted since the last full block belongs to neither side.
        self._open = []
        last = tuple(self._blocks[-BEFORE_BLOCKS:])
        latest = self._deployments[-1] if self._deployments else None
        if latest is not None and not self._blocks_since(latest.at):
            # The release is asked for after the first page of a new start: one deployment, told in two parts.
            changes = (*latest.changes, *(change for change in changes if change not in latest.changes))
            self._deployments[-1] = replace(latest, changes=changes)
        else:
            self._deployments = [*self._deployments, Deployment(at, changes, last)][-MOST_DEPLOYMENTS:]
        if changes:
            self._blocks, self._length = [], self._first_length

    def _blocks_since(self, at: float) -> bool:
        return bool(self._blocks) and self._blocks[-1].began >= at

    def _merge(self) -> None:
        """Halve the number of blocks; those of different starts of the server stay apart."""
        starts = [deployment.at for deployment in self._deployments]
        merged: list[Block] = []
        for block in self._blocks:
            last = merged[-1] if merged else None
            short = last is not None and last.ended - last.began < 2 * self._length * (1 - 1e-9)
            if last is None or not short or any(last.ended <= start <= block.began for start in starts):
                merged.append(block)
            else:
                merged[-1] = Block(last.began, block.ended, _joined([last.work, block.work]))
        self._length *= 2
        self._blocks = merged


def pooled(blocks: Sequence[Block]) -> Increments:
    """What a server did over all these blocks."""
    return _joined([block.work for block in blocks])


def _kept(work: Increments) -> Increments:
    counts = work.counts
    return Increments(
        work.seconds,
        {counter: counts[counter] for counter in KEPT if counter in counts},
        work.accepted_per_position[:FIRST_POSITIONS],
    )


def _joined(parts: Sequence[Increments]) -> Increments:
    """Increments of one server in turn: counts and seconds added."""
    if len(parts) == 1:
        return parts[0]
    return replace(add_up(parts), seconds=sum(part.seconds for part in parts))
