"""What was launched, in a small file for the sidecar: vLLM's metrics name neither the method nor K."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm.checkpoint import parameters
from specwatch.vllm.releases import Release
from specwatch.vllm.schedule import SCHEDULE
from specwatch.vllm.speculation import Speculation

FORMAT = 1
"""Number of this layout; a reader refuses a newer one."""
SIZE_LIMIT = 65536
"""Bytes; a record has a few hundred."""
_FREE = ("ngram", "ngram_gpu", "suffix")
"""Methods that look drafts up instead of computing them."""
_ONE_PASS_A_TOKEN = ("draft_model", "eagle", "eagle3")
"""Methods whose draft runs once for every token, so that its size over the target's is its cost."""


@dataclass(frozen=True)
class LaunchRecord:
    """One start of vLLM. Holds no secret."""

    release: str
    started_at: float
    """Seconds since 1970."""
    target: str | None = None
    """Model served; None: vLLM's default."""
    method: str | None = None
    """None: without speculation."""
    draft: str | None = None
    num_speculative_tokens: int | None = None
    """K; None: the model's own."""
    schedule: tuple[tuple[int, int, int], ...] = ()
    """First and last batch size, K; empty without a schedule."""
    target_parameters: int | None = None
    draft_parameters: int | None = None
    restarts: int = 0
    """How many times this launch has started vLLM again after a failure."""

    @property
    def draft_cost_ratio(self) -> float | None:
        """Time of one draft token over one plain step of the target, estimated by size; None when unknown.

        Decoding reads every weight once a step, so at small batches the sizes compare as the times do.
        """
        if self.method in _FREE:
            return 0.0
        if self.method not in _ONE_PASS_A_TOKEN or not self.target_parameters or not self.draft_parameters:
            return None
        return self.draft_parameters / self.target_parameters


def record_of(release: Release, target: str | None, speculation: Speculation | None, started_at: float) -> LaunchRecord:
    """The record of a start; counts parameters where the models are local folders."""
    plan = speculation or Speculation()
    return LaunchRecord(
        release=str(release),
        started_at=started_at,
        target=target,
        method=plan.method,
        draft=plan.model,
        num_speculative_tokens=plan.num_speculative_tokens,
        schedule=tuple((first, last, tokens) for first, last, tokens in plan.options.get(SCHEDULE, ())),
        target_parameters=parameters(target) if target else None,
        draft_parameters=parameters(plan.model) if plan.model else None,
    )


def write(path: Path, record: LaunchRecord) -> None:
    """Write a record, whole or not at all, readable by its owner only."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump({"format": FORMAT} | asdict(record), stream, indent=2)
            stream.write("\n")
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def read(path: Path) -> LaunchRecord:
    """Read a record; InputError, with the place, when the file holds none."""
    try:
        with path.open("rb") as stream:
            content = json.loads(stream.read(SIZE_LIMIT))
    except OSError as problem:
        raise InputError(f"launch record {path}: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, RecursionError):
        raise InputError(f"launch record {path}: no JSON, as specwatch launch writes it") from None
    if not isinstance(content, dict):
        raise InputError(f"launch record {path}: a JSON object is needed")
    if content.get("format") != FORMAT:
        raise InputError(f"launch record {path}: format {content.get('format')!r}, this specwatch reads {FORMAT}")
    try:
        return _record(content)
    except (TypeError, ValueError) as problem:
        raise InputError(f"launch record {path}: {problem}") from None


def _record(content: Mapping[str, Any]) -> LaunchRecord:
    started_at = content.get("started_at")
    if isinstance(started_at, bool) or not isinstance(started_at, int | float) or not math.isfinite(started_at):
        raise ValueError("started_at: seconds since 1970 are needed")
    release = _optional(content, "release", str)
    if release is None:
        raise ValueError("release is missing")
    return LaunchRecord(
        release=release,
        started_at=float(started_at),
        target=_optional(content, "target", str),
        method=_optional(content, "method", str),
        draft=_optional(content, "draft", str),
        num_speculative_tokens=_optional(content, "num_speculative_tokens", int),
        schedule=_schedule(content.get("schedule", [])),
        target_parameters=_optional(content, "target_parameters", int),
        draft_parameters=_optional(content, "draft_parameters", int),
        restarts=_optional(content, "restarts", int) or 0,
    )


def _optional(content: Mapping[str, Any], key: str, kind: type) -> Any:
    value = content.get(key)
    if value is not None and type(value) is not kind:
        raise ValueError(f"{key}: {kind.__name__} is needed, not {value!r}")
    return value


def _schedule(entries: Any) -> tuple[tuple[int, int, int], ...]:
    if not isinstance(entries, list) or not all(
        isinstance(entry, list) and len(entry) == 3 and all(type(number) is int for number in entry)
        for entry in entries
    ):
        raise ValueError("schedule: a list of three whole numbers each is needed")
    return tuple((first, last, tokens) for first, last, tokens in entries)
