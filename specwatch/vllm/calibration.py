"""Reads from a calibration what a launch needs: which K pays at which batch size, measured on the same models.

The whole format is in docs/calibration-format.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
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
"""Bytes: a ladder of ten concurrencies, eight domains and four K with its samples is below 1 MiB."""


@dataclass(frozen=True)
class Calibration:
    """What was measured on which models, as far as it concerns a launch."""

    path: Path
    target: str
    method: str
    draft: str | None
    num_speculative_tokens: int
    """K to launch with: the largest in the schedule."""
    schedule: tuple[tuple[int, int, int], ...]
    """First and last batch size, and the K that was fastest there."""

    def applied(self, speculation: Speculation) -> Speculation:
        """Speculation with the measured schedule, and with its K where none was asked for."""
        if SCHEDULE in speculation.options or speculation.max_concurrency is not None:
            raise InputError(f"--calibration {self.path}: the plan says itself when drafting ends; keep one of them")
        options = dict(speculation.options) | {SCHEDULE: [list(entry) for entry in self.schedule]}
        tokens = speculation.num_speculative_tokens or self.num_speculative_tokens
        return replace(speculation, options=options, num_speculative_tokens=tokens)

    def refuse_another(self, target: str | None, speculation: Speculation) -> None:
        """InputError naming the difference where the plan is not what was measured."""
        pairs = (
            ("target", self.target, target),
            ("method", self.method, speculation.method),
            ("draft", self.draft, speculation.model),
            ("num_speculative_tokens", self.num_speculative_tokens, speculation.num_speculative_tokens),
        )
        other = [f"{name} {measured}, not {asked}" for name, measured, asked in pairs if _differ(measured, asked)]
        if other:
            raise InputError(
                f"--calibration {self.path}: it was measured with {' and '.join(other)}: measure this plan"
            )


def _differ(measured: str | int | None, asked: str | int | None) -> bool:
    def plain(value: str | int | None) -> str | int | None:
        return value.rstrip("/") if isinstance(value, str) else value

    return plain(measured) != plain(asked)


def read(path: Path) -> Calibration:
    """Read a calibration; InputError, with the place, where the file holds none that a launch can use."""
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
    if not isinstance(advice, dict):
        raise ValueError("it recommends nothing: the measurement did not end")
    entries: Any = advice.get("schedule")
    schedule.check(entries)
    return Calibration(
        path=path,
        target=_text(content, "target"),
        method=_text(content, "method"),
        draft=_text(content, "draft") if content.get("draft") is not None else None,
        num_speculative_tokens=_tokens(advice.get("num_speculative_tokens"), entries),
        schedule=tuple((first, last, tokens) for first, last, tokens in entries),
    )


def _text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key}: a name is needed")
    return value


def _tokens(value: Any, entries: list[list[int]]) -> int:
    most = max(tokens for _, _, tokens in entries)
    if most == 0:
        raise ValueError("it recommends no speculation at any batch size: start without")
    if type(value) is not int or value < most:
        raise ValueError(f"recommended.num_speculative_tokens: the schedule's largest K, {most}, is needed")
    return value
