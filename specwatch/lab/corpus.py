"""Text in three domains that people serve, written by seeded generators: code, JSON documents, Spanish prose.

Every choice a writer makes leans on the one before it, and strays often enough that no document can be recited.
The leaning matters at temperature 0: a model that learned independent choices finds one most likely sentence and
repeats it for ever, while here each word has its own likely successor, and the text moves on.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence

from specwatch.errors import InputError
from specwatch.lab import phrases

HABIT = 0.7
"""Probability that a choice follows from the one before it, instead of being any."""

SHORT_LIST = 12
"""Choices among fewer words than this hint at nothing: after two or three words the text would come round."""

DOCUMENT_CHARACTERS = 1600
"""Where a document may end: longer than a prompt and its answer together, so that the text goes on."""

PROMPT_CHARACTERS = (48, 160)
"""Shortest and longest prompt: enough to name the domain and to begin differently every time."""

_FIELD = re.compile(r"\$([A-Za-z]+)(\d*)")


class _Writer:
    """Fills templates with words, where each choice hints at the next one."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self._cue = source.randrange(1000)

    def pick(self, options: Sequence[str]) -> str:
        """One of ``options``: mostly the one that the last long list's choice leads to, sometimes any."""
        follows = self.source.random() < HABIT
        index = (self._cue + 1) % len(options) if follows else self.source.randrange(len(options))
        if len(options) >= SHORT_LIST:
            self._cue = index
        return options[index]

    def fill(self, template: str) -> str:
        """``template`` with words in place of its fields (see ``phrases`` for what a field is)."""
        numbered: dict[str, str] = {}

        def word(field: re.Match[str]) -> str:
            name, number = field.groups()
            kind = name.lower()
            chosen = numbered.get(kind + number) if number else None
            if chosen is None:
                chosen = self.pick(phrases.LISTS[kind])
                numbered[kind + number] = chosen
            if name == kind:
                return chosen
            return chosen.upper() if name.isupper() else chosen[0].upper() + chosen[1:]

        return _FIELD.sub(word, template)


def _code(writer: _Writer) -> str:
    text = writer.fill(writer.source.choice(phrases.CODE_HEADS))
    while len(text) < DOCUMENT_CHARACTERS:
        text += writer.fill(writer.pick(phrases.CODE_BLOCKS))
    return text.rstrip("\n") + "\n"


def _json(writer: _Writer) -> str:
    opening, record, separator, closing = writer.source.choice(phrases.JSON_DOCUMENTS)
    text = writer.fill(opening)
    first = writer.source.randrange(100, 9000)
    for number in itertools.count(first):
        text += (separator if number > first else "") + writer.fill(record).replace("#", str(number))
        if len(text) >= DOCUMENT_CHARACTERS:
            break
    return text + closing


def _prose(writer: _Writer) -> str:
    text = writer.fill(writer.source.choice(phrases.PROSE_HEADS))
    while len(text) < DOCUMENT_CHARACTERS:
        sentences = (writer.fill(writer.pick(phrases.PROSE_SENTENCES)) for _ in range(writer.source.randint(3, 5)))
        text += "".join(sentences).rstrip() + "\n\n"
    return text.rstrip("\n") + "\n"


_WRITERS: dict[str, Callable[[_Writer], str]] = {"code": _code, "json": _json, "es": _prose}

DOMAINS: tuple[str, ...] = tuple(_WRITERS)
"""Python modules, JSON documents, technical prose in Spanish."""


def documents(domain: str, seed: int) -> Iterator[str]:
    """Documents of a domain without end, the same ones for the same seed. InputError for another domain."""
    return _documents(domain, f"training {seed}")


def prompts(domain: str, count: int, seed: int) -> list[str]:
    """Beginnings of ``count`` documents that ``documents`` never yields, whatever its seed: held-out prompts."""
    lengths = _source(f"{domain} lengths {seed}")
    held_out = itertools.islice(_documents(domain, f"held out {seed}"), count)
    return [document[: lengths.randint(*PROMPT_CHARACTERS)] for document in held_out]


def fingerprint() -> str:
    """Short hash of what the writers write now: it changes when the corpus does."""
    digest = hashlib.sha256()
    for domain in DOMAINS:
        for document in itertools.islice(documents(domain, seed=0), 64):
            digest.update(document.encode())
    return digest.hexdigest()[:16]


def _documents(domain: str, name: str) -> Iterator[str]:
    if domain not in _WRITERS:
        raise InputError(f"no domain {domain!r} in the lab's corpus: use one of {', '.join(DOMAINS)}")
    source = _source(f"{domain} {name}")
    return (_WRITERS[domain](_Writer(source)) for _ in itertools.count())


def _source(name: str) -> random.Random:
    return random.Random(name)  # noqa: S311 -- repeatable is the point here
