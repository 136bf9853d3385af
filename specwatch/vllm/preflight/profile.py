"""What each further draft token is worth, from acceptance by position as it was measured somewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError

ASSUMED_COST = 0.05
"""Time of a draft token over that of a target step, where the profile has none: the sidecar's own assumption."""
SIZE_LIMIT = 16_000_000
"""Bytes of an answer or file; a sidecar with a thousand targets sends a few million."""
SECONDS = 5.0
_HEADLINE = "headline_window"


@dataclass(frozen=True)
class Profile:
    """Acceptance by position on some traffic, and what a draft token costs."""

    positions: tuple[float, ...]
    """Share of drafts whose token at this position was accepted; the first one drafted comes first."""
    cost: float
    """Time of one draft token over one plain step of the target."""
    source: str

    def speedup(self, tokens: int) -> float:
        """Expected speedup over plain decoding with that K, verifying for free: (1 + accepted) / (1 + K·c)."""
        return (1 + sum(self.positions[:tokens])) / (1 + tokens * self.cost)

    @property
    def best(self) -> int:
        """The K of the largest expected speedup; 0 where drafting never pays. Never beyond what was measured."""
        return max(range(len(self.positions) + 1), key=self.speedup)


def read(source: str) -> Profile:
    """A profile from a sidecar's address or a file; InputError with the place where there is none.

    A file is JSON: a calibration, an answer of the sidecar's ``/api/v1/signals``, or an object with
    ``acceptance_by_position`` and perhaps ``draft_cost``.
    """
    content = _fetch(source) if source.startswith(("http://", "https://")) else _load(source)
    profile = next(iter(_profiles(content, source)), None)
    if profile is None:
        raise InputError(
            f"--profile-from {source}: no acceptance by position in it: a sidecar that watches a server with enough "
            'traffic, or {"acceptance_by_position": [0.8, 0.6, …]}, is needed'
        )
    return profile


def _fetch(address: str) -> Any:
    from urllib.request import urlopen

    url = f"{address.rstrip('/')}/api/v1/signals"
    try:
        with urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - the scheme was looked at
            return json.loads(answer.read(SIZE_LIMIT))
    except (OSError, ValueError) as problem:
        raise InputError(f"--profile-from {url}: {problem}; is this a sidecar's address?") from None


def _load(path: str) -> Any:
    try:
        with Path(path).open("rb") as stream:
            return json.loads(stream.read(SIZE_LIMIT))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(f"--profile-from {path}: cannot be read: {problem}") from None


def _profiles(content: Any, source: str) -> Iterator[Profile]:
    """Every profile in an answer or a file, the first target first."""
    if not isinstance(content, dict):
        return
    own = _profile(content.get("acceptance_by_position"), content.get("draft_cost"), source)
    if own is not None:
        yield own
    for cell in _quietest(content.get("cells")):
        where = f"{cell.get('domain')} in {source}"
        found = _profile(cell.get("acceptance_by_position"), content.get("draft_cost"), where)
        if found is not None:
            yield found
    for view in _objects(content.get("targets")):
        if (found := _of_target(view, source)) is not None:
            yield found


def _objects(entries: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _quietest(cells: Any) -> list[Mapping[str, Any]]:
    """Cells of a calibration, few requests first and of those the longest drafts: they tell of most values of K."""

    def rank(cell: Mapping[str, Any]) -> tuple[float, float]:
        numbers = [cell.get(key) for key in ("concurrency", "num_speculative_tokens")]
        first, last = (float(min(n, 10**9)) if isinstance(n, int | float) else 0.0 for n in numbers)
        return first, -last

    return sorted(_objects(cells), key=rank)


def _of_target(view: Mapping[str, Any], source: str) -> Profile | None:
    windows, cost, target = view.get("windows"), view.get("cost"), view.get("target")
    window = windows.get(view.get(_HEADLINE)) if isinstance(windows, dict) else None
    values = window.get("values") if isinstance(window, dict) else None
    name = target.get("name") if isinstance(target, dict) else None
    if not isinstance(values, dict):
        return None
    where = f"{name} at {source}" if name else source
    return _profile(values.get("position_acceptance"), cost.get("c") if isinstance(cost, dict) else None, where)


def _profile(positions: Any, cost: Any, source: str) -> Profile | None:
    if not isinstance(positions, list) or not positions or not all(_is_share(share) for share in positions):
        return None
    known = isinstance(cost, int | float) and 0 <= cost < 1
    return Profile(tuple(map(float, positions)), float(cost) if known else ASSUMED_COST, source)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
