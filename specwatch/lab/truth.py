"""What really happened on a simulated engine: the figures that signals and benchmarks are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from operator import add, sub
from typing import Any


@dataclass(frozen=True)
class Truth:
    """Cumulative quantities of one engine since it first started; restarts do not set them back.

    ``accepted_tokens`` leaves out the bonus token, as vLLM does, and counts tokens past a request's end.
    ``decode_steps`` are steps of single requests after their first token (what the inter-token latency counts),
    ``engine_steps`` steps of the whole batch. Differences of two of them are what a window should show.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()
    decode_steps: int = 0
    decode_seconds: float = 0.0
    engine_steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    requests_started: int = 0
    requests_finished: int = 0

    def __add__(self, other: Truth) -> Truth:
        return self._with(other, add)

    def __sub__(self, earlier: Truth) -> Truth:
        return self._with(earlier, sub)

    def _with(self, other: Truth, combine: Callable[[Any, Any], Any]) -> Truth:
        positions = zip_longest(self.accepted_per_position, other.accepted_per_position, fillvalue=0)
        return Truth(
            drafts=combine(self.drafts, other.drafts),
            draft_tokens=combine(self.draft_tokens, other.draft_tokens),
            accepted_tokens=combine(self.accepted_tokens, other.accepted_tokens),
            accepted_per_position=tuple(combine(mine, theirs) for mine, theirs in positions),
            decode_steps=combine(self.decode_steps, other.decode_steps),
            decode_seconds=combine(self.decode_seconds, other.decode_seconds),
            engine_steps=combine(self.engine_steps, other.engine_steps),
            prompt_tokens=combine(self.prompt_tokens, other.prompt_tokens),
            generated_tokens=combine(self.generated_tokens, other.generated_tokens),
            requests_started=combine(self.requests_started, other.requests_started),
            requests_finished=combine(self.requests_finished, other.requests_finished),
        )

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted tokens per draft token; ``None`` when nothing was drafted."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else None

    @property
    def acceptance_length(self) -> float | None:
        """Mean tokens of a drafted step, bonus token included; ``None`` when nothing was drafted."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else None

    @property
    def coverage(self) -> float | None:
        """Share of decode steps that were drafted; ``None`` when there were none."""
        return self.drafts / self.decode_steps if self.decode_steps else None


@dataclass
class Tally:
    """Running counts of one engine process; ``accepted_in_draft[j]`` are drafts of which j tokens were accepted."""

    accepted_in_draft: list[int]
    finished: Counter[str]
    draft_tokens: int = 0
    decode_steps: int = 0
    decode_seconds: float = 0.0
    engine_steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    requests_started: int = 0

    @classmethod
    def empty(cls, k: int) -> Tally:
        """Counts at the start of a process that drafts up to ``k`` tokens."""
        return cls(accepted_in_draft=[0] * (k + 1), finished=Counter())

    def step(self, seconds: float, decoded: int, k: int, generated: int, prompt_tokens: int, started: int) -> None:
        """Count one engine step in which ``decoded`` requests verified ``k`` draft tokens each."""
        self.engine_steps += 1
        self.decode_steps += decoded
        self.decode_seconds += seconds * decoded
        self.draft_tokens += decoded * k
        self.generated_tokens += generated
        self.prompt_tokens += prompt_tokens
        self.requests_started += started

    def finish(self, reason: str) -> None:
        """Count a request that ended for ``reason``, in vLLM's words (stop, length)."""
        self.finished[reason] += 1

    @property
    def drafts(self) -> int:
        """Request-steps that verified a draft."""
        return sum(self.accepted_in_draft)

    @property
    def accepted_tokens(self) -> int:
        """Draft tokens accepted."""
        return sum(accepted * drafts for accepted, drafts in enumerate(self.accepted_in_draft))

    @property
    def accepted_per_position(self) -> tuple[int, ...]:
        """Drafts that were accepted at each position, counted from 0: those with more accepted tokens than it."""
        return tuple(sum(self.accepted_in_draft[position + 1 :]) for position in range(len(self.accepted_in_draft) - 1))

    def truth(self) -> Truth:
        """A snapshot that stays as it is."""
        return Truth(
            drafts=self.drafts,
            draft_tokens=self.draft_tokens,
            accepted_tokens=self.accepted_tokens,
            accepted_per_position=self.accepted_per_position,
            decode_steps=self.decode_steps,
            decode_seconds=self.decode_seconds,
            engine_steps=self.engine_steps,
            prompt_tokens=self.prompt_tokens,
            generated_tokens=self.generated_tokens,
            requests_started=self.requests_started,
            requests_finished=self.finished.total(),
        )
