"""Reads a calibration: which K pays at which batch size, and what a step costs, measured on one deployment.

The whole format is in docs/calibration-format.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm import schedule
from specwatch.vllm.schedule import SCHEDULE
from specwatch.vllm.speculation import Speculation

FORMAT = 1
"""Number of this layout; a reader refuses a newer one."""
SIZE_LIMIT = 16 * 2**20
"""Bytes: a ladder of ten concurrencies, eight domains and four K is below 1 MiB."""


@dataclass(frozen=True)
class Crossover:
    """From how many requests at a time on speculation is slower than none."""

    num_speculative_tokens: int
    domain: str
    concurrency: int | None
    """None: not up to the most that was measured."""


@dataclass(frozen=True)
class CalibratedCell:
    """The speedup of one domain, K and concurrency."""

    domain: str
    num_speculative_tokens: int
    concurrency: int
    speedup: float


@dataclass(frozen=True)
class Calibration:
    """What was measured on which models."""

    path: Path
    target: str
    method: str | None
    """None: nobody said."""
    draft: str | None
    num_speculative_tokens: int | None
    """K to launch with, the largest in the schedule; None where nothing is recommended, 0 where it never pays."""
    schedule: tuple[tuple[int, int, int], ...]
    """First and last batch size, and the K that was fastest there."""
    gpu: str | None = None
    measured: tuple[int, ...] = ()
    """Every K that was measured."""
    costs: tuple[Mapping[str, Any], ...] = ()
    """What a step costs by K and concurrency: entries for ``signals.cost.CostPoint.read``."""
    crossovers: tuple[Crossover, ...] = ()
    cells: tuple[CalibratedCell, ...] = ()

    def applied(self, speculation: Speculation) -> Speculation:
        """Speculation with the measured schedule, and with its K where none was asked for."""
        if SCHEDULE in speculation.options or speculation.max_concurrency is not None:
            raise InputError(f"--calibration {self.path}: the plan says itself when drafting ends; keep one of them")
        advised = self.num_speculative_tokens
        if advised is None:
            raise InputError(f"--calibration {self.path}: it recommends nothing: the measurement did not end")
        if advised == 0:
            raise InputError(
                f"--calibration {self.path}: it recommends no speculation at any batch size: start without"
            )
        tokens = speculation.num_speculative_tokens or advised
        if tokens != advised:
            raise InputError(
                f"--calibration {self.path}: it recommends num_speculative_tokens {advised}, not {tokens}: leave it out"
            )
        options = dict(speculation.options) | {SCHEDULE: [list(entry) for entry in self.schedule]}
        return replace(speculation, options=options, num_speculative_tokens=tokens)

    def refuse_another(self, target: str | None, speculation: Speculation, gpu: str | None = None) -> None:
        """InputError naming every difference where a server is not what was measured; ``gpu`` None: not known."""
        if self.method is None:
            raise InputError(
                f"--calibration {self.path}: it does not say how the measured server drafts; tell specwatch calibrate "
                "with --method and --draft"
            )
        pairs = (
            ("target", self.target, target),
            ("method", self.method, speculation.method),
            ("draft", self.draft, speculation.model),
            ("gpu", self.gpu, gpu if self.gpu and gpu else self.gpu),
        )
        other = [f"{name} {measured}, not {asked}" for name, measured, asked in pairs if _differ(measured, asked)]
        tokens = speculation.num_speculative_tokens
        known = self.measured or ((self.num_speculative_tokens,) if self.num_speculative_tokens else ())
        if known and tokens is not None and tokens not in known:
            other.append(f"num_speculative_tokens {' and '.join(map(str, known))}, not {tokens}")
        if other:
            raise InputError(
                f"--calibration {self.path}: it was measured with {' and '.join(other)}: measure this plan"
            )


def _differ(measured: str | None, asked: str | None) -> bool:
    def plain(value: str | None) -> str | None:
        return value.rstrip("/") if isinstance(value, str) else value

    return plain(measured) != plain(asked)


def read(path: Path) -> Calibration:
    """Read a calibration; InputError, with the place, where the file holds none."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(SIZE_LIMIT + 1)
        content = json.loads(raw) if len(raw) <= SIZE_LIMIT else None
    except OSError as problem:
        raise InputError(f"--calibration {path}: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, RecursionError) as problem:
        raise InputError(f"--calibration {path}: no JSON: {problem}") from None
    if not isinstance(content, dict):
        raise InputError(f"--calibration {path}: no calibration: a JSON object of at most 16 MiB is needed")
    if content.get("format") != FORMAT:
        raise InputError(f"--calibration {path}: format {content.get('format')!r}, this specwatch reads {FORMAT}")
    try:
        return _calibration(path, content)
    except (ValueError, InputError) as problem:
        raise InputError(f"--calibration {path}: {problem}") from None


def _calibration(path: Path, content: Mapping[str, Any]) -> Calibration:
    advice = content.get("recommended")
    entries: Any = []
    tokens = None
    if advice is not None:
        if not isinstance(advice, dict):
            raise ValueError("recommended: num_speculative_tokens and a schedule are needed")
        entries = advice.get("schedule")
        schedule.check(entries)
        tokens = _tokens(advice.get("num_speculative_tokens"), entries)
    costs = _entries(content, "costs")
    return Calibration(
        path=path,
        target=_text(content, "target"),
        method=_text(content, "method") if content.get("method") is not None else None,
        draft=_text(content, "draft") if content.get("draft") is not None else None,
        num_speculative_tokens=tokens,
        schedule=tuple((first, last, tokens) for first, last, tokens in entries),
        gpu=_text(content, "gpu") if content.get("gpu") is not None else None,
        measured=tuple(sorted({_count(entry, "num_speculative_tokens") for entry in costs})),
        costs=costs,
        crossovers=tuple(_crossover(entry) for entry in _entries(content, "crossovers")),
        cells=tuple(_cell(entry) for entry in _entries(content, "cells") if entry.get("speedup") is not None),
    )


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key}: a name is needed")
    return value


def _entries(content: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    value = content.get(key, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"{key}: a list of objects is needed")
    return tuple(value)


def _count(entry: Mapping[str, Any], key: str) -> int:
    value = entry.get(key)
    if type(value) is not int or value < 1:
        raise ValueError(f"{key}: a whole number from 1 on is needed, not {value!r:.40}")
    return value


def _crossover(entry: Mapping[str, Any]) -> Crossover:
    nowhere = entry.get("concurrency") is None
    return Crossover(
        _count(entry, "num_speculative_tokens"),
        _text(entry, "domain"),
        None if nowhere else _count(entry, "concurrency"),
    )


def _cell(entry: Mapping[str, Any]) -> CalibratedCell:
    speedup = entry["speedup"]
    if isinstance(speedup, bool) or not isinstance(speedup, int | float) or not 0 < speedup < math.inf:
        raise ValueError(f"cells: speedup must be a number above 0, not {speedup!r:.40}")
    domain, k = _text(entry, "domain"), _count(entry, "num_speculative_tokens")
    return CalibratedCell(domain, k, _count(entry, "concurrency"), float(speedup))


def _tokens(value: Any, entries: Sequence[Sequence[int]]) -> int:
    most = max(tokens for _, _, tokens in entries)
    if type(value) is not int or value < most:
        raise ValueError(f"recommended.num_speculative_tokens: the schedule's largest K, {most}, is needed")
    return value
