"""Known domains by their acceptance at every draft position, and which of them live traffic is most like.

``specwatch evaluate-draft`` writes them; docs/evaluate-draft.md has the format of the file. Reading the file is the
caller's: this takes what JSON holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specwatch.errors import InputError

FORMAT = 1
"""Number of the file's layout; a newer one is refused."""
MOST_DOMAINS = 1000
MOST_POSITIONS = 64
"""No server drafts more tokens a step."""


@dataclass(frozen=True)
class Fingerprint:
    """What a draft is expected to do on one domain."""

    name: str
    by_k: Mapping[int, tuple[float, ...]]
    """Acceptance rate of each position, unconditional, from position 0: for every K that was evaluated."""

    def rates(self, k: int) -> tuple[float, ...]:
        """Those of the K nearest to this one, the smaller of two."""
        return self.by_k[min(self.by_k, key=lambda known: (abs(known - k), known))]

    def distance(self, rates: Sequence[float | None], k: int) -> float | None:
        """Mean difference of acceptance at the positions that both have; None where there is none."""
        apart = [abs(ours - theirs) for ours, theirs in zip(self.rates(k), rates, strict=False) if theirs is not None]
        return sum(apart) / len(apart) if apart else None


def parse(content: Any) -> tuple[Fingerprint, ...]:
    """The fingerprints of a file's JSON; InputError, without the file's name, where it holds none."""
    if not isinstance(content, dict) or not isinstance(content.get("domains"), dict):
        raise InputError("no fingerprints: the JSON that specwatch evaluate-draft --output writes is needed")
    if content.get("format") != FORMAT:
        raise InputError(f"format {content.get('format')!r}, this specwatch reads {FORMAT}")
    # A domain whose texts were too short for any K has an empty list.
    known = {name: entry for name, entry in content["domains"].items() if not _is_empty(entry)}
    if not 0 < len(known) <= MOST_DOMAINS:
        raise InputError(f"{len(known)} domains with figures: from 1 to {MOST_DOMAINS} can be told apart")
    return tuple(_fingerprint(str(name), entry) for name, entry in known.items())


def nearest(fingerprints: Sequence[Fingerprint], rates: Sequence[float | None], k: int) -> tuple[str, float] | None:
    """Name of the domain whose acceptance by position is nearest to ``rates``, and its distance; None without any.

    ``rates`` are unconditional, from position 0, as vLLM counts them at K = ``k``. The distance is a mean difference of
    acceptance rates, so 0.05 is five points at each position.
    """
    apart = [(distance, one.name) for one in fingerprints if (distance := one.distance(rates, k)) is not None]
    if not apart:
        return None
    distance, name = min(apart)
    return name, distance


def _is_empty(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("by_k") == []


def _fingerprint(name: str, entry: Any) -> Fingerprint:
    listed = entry.get("by_k") if isinstance(entry, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InputError(f"domain {name}: by_k must list what was evaluated for each K")
    return Fingerprint(name, dict(_rates(name, one) for one in listed))


def _rates(name: str, entry: Any) -> tuple[int, tuple[float, ...]]:
    k = entry.get("num_speculative_tokens") if isinstance(entry, dict) else None
    rates = entry.get("acceptance_by_position") if isinstance(entry, dict) else None
    if type(k) is not int or not 0 < k <= MOST_POSITIONS or not isinstance(rates, list) or len(rates) != k:
        raise InputError(
            f"domain {name}: each entry of by_k needs num_speculative_tokens K and K acceptance_by_position"
        )
    if not all(isinstance(rate, int | float) and 0 <= rate <= 1 for rate in rates):
        raise InputError(f"domain {name}, K {k}: acceptance_by_position must be numbers from 0 to 1")
    return k, tuple(float(rate) for rate in rates)
