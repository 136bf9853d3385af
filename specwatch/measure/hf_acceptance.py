"""Acceptance of Hugging Face's assisted generation, which does not tell it: counted where candidates are judged.

Its loop asks a candidate generator for tokens, and tells it after each step how many matched. Both transformers 4 and 5
do; where another release does not, nothing is counted, and generation goes on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_MAKER = "_get_candidate_generator"
_TOLD = "update_candidate_strategy"


@dataclass
class AssistedCounts:
    """What the steps so far added up to."""

    steps: int = 0
    """With at least one draft token."""
    drafted: int = 0
    accepted: int = 0

    @property
    def known(self) -> bool:
        """Whether anything could be counted."""
        return self.drafted > 0


@contextmanager
def counted_drafting(model: Any) -> Iterator[AssistedCounts]:
    """Count while ``model.generate`` drafts, within the block."""
    counts = AssistedCounts()
    make = getattr(model, _MAKER, None)
    if make is None:
        yield counts
        return

    def counting(*arguments: Any, **options: Any) -> Any:
        generator = make(*arguments, **options)
        told = getattr(generator, _TOLD)

        def count(input_ids: Any, scores: Any, num_matches: Any) -> Any:
            # The scores of a step are those of its candidates and of the token after them.
            drafted = int(scores.shape[1]) - 1
            counts.steps += drafted > 0
            counts.drafted += drafted
            counts.accepted += min(int(num_matches), drafted)
            return told(input_ids, scores, num_matches)

        setattr(generator, _TOLD, count)
        return generator

    setattr(model, _MAKER, counting)
    try:
        yield counts
    finally:
        delattr(model, _MAKER)
