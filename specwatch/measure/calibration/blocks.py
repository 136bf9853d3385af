"""What a calibration measures, cut into blocks: one server, one domain, one temperature, one concurrency, one turn."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from specwatch.errors import InputError
from specwatch.measure.prompt_sets import PromptSet

MIN_TOKENS = 500
"""Tokens of a cell, on either server, below which nothing is concluded: at two or three tokens a step they are some 200
drafts, which leave acceptance uncertain by 0.035 if they were independent, and they are not."""

WARM_UP_TOKENS = 16
"""Tokens of a warm-up answer: enough for every batch shape on the way up and down, too few to take time."""


@dataclass(frozen=True)
class Cell:
    """What a speedup is said for, but for K."""

    domain: str
    temperature: float
    concurrency: int


@dataclass(frozen=True)
class Block:
    """One turn of one server in a cell."""

    repetition: int
    k: int
    """num_speculative_tokens; 0: without speculation."""
    cell: Cell

    def __str__(self) -> str:
        who = f"K {self.k}" if self.k else "no speculation"
        cell = self.cell
        return f"{cell.domain}, concurrency {cell.concurrency}, temperature {cell.temperature:g}, {who}"


@dataclass(frozen=True)
class Design:
    """How to measure. Every repetition asks other prompts, the same ones of every server."""

    domains: tuple[PromptSet, ...]
    ks: tuple[int, ...]
    max_concurrency: int = 16
    temperatures: tuple[float, ...] = (0.0,)
    repetitions: int = 4
    requests: int = 8
    """Answers of a block, at least; a block has two full rounds of its concurrency or more."""
    max_tokens: int = 128
    in_turn: bool = False
    """Only one server can run at a time: all cells of a repetition on one, then on the next."""
    ladder: tuple[int, ...] = field(init=False)
    """1, 2, 4 … and the maximum."""

    def __post_init__(self) -> None:
        steps = [2**power for power in range(self.max_concurrency.bit_length())]
        object.__setattr__(self, "ladder", tuple(sorted({*steps, self.max_concurrency})))
        names = [domain.name for domain in self.domains]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"--domain {twice[0]}: given twice")
        tokens = self.repetitions * self.size(1) * self.max_tokens
        if tokens < MIN_TOKENS:
            raise InputError(
                f"too few tokens to conclude anything: {self.repetitions} repetitions of {self.size(1)} answers of "
                f"{self.max_tokens} tokens are {tokens}, and {MIN_TOKENS} are needed; raise --requests or --repetitions"
            )

    def size(self, concurrency: int) -> int:
        """Answers of a block: whole rounds, so that the last one is as full as the others."""
        rounds = max(2, -(-self.requests // concurrency))
        return rounds * concurrency

    def prompts(self, block: Block) -> tuple[str, ...]:
        """What a block asks: the same at every concurrency as far as it goes, other prompts in every repetition."""
        (domain,) = (domain for domain in self.domains if domain.name == block.cell.domain)
        count = self.size(block.cell.concurrency)
        return domain.some(count, start=block.repetition * self.size(self.ladder[-1]))

    def blocks(self) -> list[Block]:
        """Every block in its order: A B C, then C B A, so that what drifts meanwhile meets all of them alike."""
        return list(self._in_turn() if self.in_turn else self._interleaved())

    def cells(self) -> list[Cell]:
        """Every cell of a repetition."""
        names = [domain.name for domain in self.domains]
        return [Cell(*cell) for cell in itertools.product(names, self.temperatures, self.ladder)]

    def _interleaved(self) -> Iterator[Block]:
        for repetition in range(self.repetitions):
            for cell in self.cells():
                yield from (Block(repetition, k, cell) for k in self._servers(repetition))

    def _in_turn(self) -> Iterator[Block]:
        for repetition in range(self.repetitions):
            for k in self._servers(repetition):
                yield from (Block(repetition, k, cell) for cell in self.cells())

    def _servers(self, repetition: int) -> list[int]:
        servers = [0, *self.ks]
        return servers if repetition % 2 == 0 else servers[::-1]

    def description(self) -> dict[str, Any]:
        """What must be the same for a measurement to be gone on with."""
        return {
            "domains": {domain.name: domain.fingerprint for domain in self.domains},
            "num_speculative_tokens": list(self.ks),
            "max_concurrency": self.max_concurrency,
            "temperatures": list(self.temperatures),
            "repetitions": self.repetitions,
            "requests": self.requests,
            "max_tokens": self.max_tokens,
            "in_turn": self.in_turn,
        }
