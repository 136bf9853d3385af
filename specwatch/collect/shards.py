"""Which of several sidecars watches a target."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from specwatch.errors import InputError

MOST_SHARDS = 100
"""Every target costs as many hashes whenever the targets change: a second for ten thousand of them."""


@dataclass(frozen=True)
class Shard:
    """One of several parts of all targets, the first being 1 of N."""

    number: int = 1
    of: int = 1

    def has(self, name: str) -> bool:
        """Whether a target, by its name, belongs here.

        The part with the highest hash has it (rendezvous hashing): the same after every start, and even but for chance.
        A part that is added takes its share from the others, and nothing moves between these.
        """
        return self.of == 1 or max(range(1, self.of + 1), key=lambda part: _weight(part, name)) == self.number


def _weight(part: int, name: str) -> bytes:
    return hashlib.blake2b(f"{part} {name}".encode(), digest_size=8).digest()


def parse(text: str) -> Shard:
    """``2/5``; InputError for anything else."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal()) or not 1 <= int(number[:9]) <= int(of[:9]) <= MOST_SHARDS:
        raise InputError(f"shard {text!r}: write it as NUMBER/OF, from 1/1 to {MOST_SHARDS}/{MOST_SHARDS}, such as 2/5")
    return Shard(int(number), int(of))
