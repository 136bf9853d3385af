"""Two vocabularies side by side: which numbers mean the same token to both models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specwatch.vllm.preflight.tokenizers import ROLES, Vocabulary

SHOWN_CHARACTERS = 24
"""Of a token, in a message: some vocabularies hold whole lines of spaces or dashes."""
_SPACES = ("Ġ", "▁")
"""How byte-level and SentencePiece vocabularies write a space."""


@dataclass(frozen=True)
class Difference:
    """A number that does not mean the same token to both."""

    number: int
    target: str | None
    """Token of the target; None where the number is none of its."""
    draft: str | None

    @property
    def readable(self) -> bool:
        """Whether both tokens are words of three letters or more."""
        words = [_plain(token or "").strip() for token in (self.target, self.draft)]
        return all(len(word) > 2 and word.isalpha() for word in words)

    def __str__(self) -> str:
        return f"number {self.number} is {shown(self.target)} for the target, {shown(self.draft)} for the draft"


@dataclass(frozen=True)
class Comparison:
    """What two vocabularies have in common and what not, by rising number."""

    target_size: int
    draft_size: int
    ordinary: tuple[Difference, ...]
    """Numbers that mean two different tokens, at least one of them trained."""
    markers: tuple[Difference, ...]
    """BOS or EOS of the target, under a number that means something else to the draft."""
    added: tuple[Difference, ...]
    """Other added tokens that differ, or that one of the two lacks."""
    unshared: tuple[Difference, ...]
    """Trained tokens whose number only one of the two has."""
    roles: tuple[tuple[str, str | None, str | None], ...]
    """Role, and the token that has it in the target and in the draft, where they differ."""
    common: int
    """Tokens of the draft that the target has under any number: what a translation of numbers could use."""

    @property
    def equal(self) -> bool:
        """Whether every number means the same to both, and the same tokens begin, end and pad."""
        return not (self.ordinary or self.markers or self.added or self.unshared or self.roles)


def compare(target: Vocabulary, draft: Vocabulary) -> Comparison:
    """Compare number by number."""
    ordinary: list[Difference] = []
    markers: list[Difference] = []
    added: list[Difference] = []
    unshared: list[Difference] = []
    ends = {target.roles.get("BOS"), target.roles.get("EOS")} - {None}
    for difference in _differences(target, draft):
        ours, theirs = difference.target, difference.draft
        if ours in ends:
            markers.append(difference)
        elif ours in target.added | {None} and theirs in draft.added | {None}:
            added.append(difference)
        else:
            (unshared if ours is None or theirs is None else ordinary).append(difference)
    return Comparison(
        target_size=len(target.ids),
        draft_size=len(draft.ids),
        ordinary=tuple(ordinary),
        markers=tuple(markers),
        added=tuple(added),
        unshared=tuple(unshared),
        roles=tuple(
            (role, target.roles.get(role), draft.roles.get(role))
            for role in ROLES
            if target.roles.get(role) != draft.roles.get(role)
        ),
        common=len({_plain(token) for token in target.ids} & {_plain(token) for token in draft.ids}),
    )


def _differences(target: Vocabulary, draft: Vocabulary) -> Iterator[Difference]:
    for number in sorted(target.tokens.keys() | draft.tokens.keys()):
        difference = Difference(number, target.tokens.get(number), draft.tokens.get(number))
        if difference.target != difference.draft:
            yield difference


def _plain(token: str) -> str:
    for space in _SPACES:
        token = token.replace(space, " ")
    return token


def shown(token: str | None) -> str:
    """A token as a message shows it: quoted, spaces as spaces, nothing in it that a terminal would obey."""
    if token is None:
        return "no token"
    text = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in _plain(token))
    return f"“{text[:SHOWN_CHARACTERS]}…”" if len(text) > SHOWN_CHARACTERS else f"“{text}”"
