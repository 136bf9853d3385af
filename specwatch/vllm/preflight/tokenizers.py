"""The vocabulary of a model: which number stands for which token, from whichever file its tokenizer has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from specwatch.vllm.preflight import byte_level, sentencepiece
from specwatch.vllm.preflight.models import Model, UnreadableModel, read_json

SIZE_LIMIT = 256_000_000
"""Bytes; the largest tokenizer files have some 35 million (Gemma 3)."""
ROLES = ("BOS", "EOS", "PAD")
"""The special tokens that models are trained with: begin and end of a text, and padding."""


class NoVocabulary(UnreadableModel):
    """A model whose tokenizer has no file that specwatch can read; the text says what is there."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens and their numbers."""

    ids: Mapping[str, int]
    """Every token, the added ones included."""
    added: frozenset[str]
    """Those that were put beside the trained vocabulary: special tokens, markers of chats, reserved places."""
    roles: Mapping[str, str]
    """Token of each of ROLES that the model has."""
    source: Path
    """The file it was read from."""

    @cached_property
    def tokens(self) -> Mapping[int, str]:
        """Token by number."""
        return {number: token for token, number in reversed(list(self.ids.items()))}


def vocabulary(model: Model) -> Vocabulary:
    """The vocabulary of a model's tokenizer; NoVocabulary or UnreadableModel where there is none to read."""
    for name, read in _READERS:
        file = model.folder / name
        if file.exists():
            return _complete(model, file, *_guarded(file, read))
    for file in sorted(model.folder.glob("*.tiktoken")):
        return _complete(model, file, *_guarded(file, _tiktoken))
    raise NoVocabulary(
        f"{model.name} has none of {', '.join(name for name, _ in _READERS)} in {model.folder}: its vocabulary cannot "
        "be compared"
    )


Found = tuple[dict[str, int], dict[str, int]]
"""Tokens, and added tokens, with their numbers."""


def _guarded(file: Path, read: Callable[[Path], Found]) -> Found:
    try:
        if file.stat().st_size > SIZE_LIMIT:
            raise UnreadableModel(f"{file} has {file.stat().st_size} bytes, more than the {SIZE_LIMIT} that are read")
        return read(file)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise UnreadableModel(f"{file} is no tokenizer that can be read: {problem!r}") from None


def _fast(file: Path) -> Found:
    """``tokenizer.json``: the model's vocabulary is a mapping, or with Unigram a list in the numbers' order."""
    content = json.loads(file.read_bytes())
    words = content["model"]["vocab"]
    ids = words if isinstance(words, dict) else {word[0]: number for number, word in enumerate(words)}
    added = {str(token["content"]): int(token["id"]) for token in content.get("added_tokens") or []}
    return {str(token): int(number) for token, number in ids.items()}, added


def _tekken(file: Path) -> Found:
    return byte_level.tekken(json.loads(file.read_bytes()))


def _tiktoken(file: Path) -> Found:
    return byte_level.ranks(file.read_bytes()), {}


def _model_file(file: Path) -> Found:
    """``tokenizer.model`` is SentencePiece's for most, and tiktoken's for Llama 3 in its first form."""
    content = file.read_bytes()
    first = content.split(b"\n", 1)[0].split()
    if len(first) == 2 and first[1].isdigit():
        return byte_level.ranks(content), {}
    return sentencepiece.pieces(content), {}


def _mapping(file: Path) -> Found:
    return {str(token): int(number) for token, number in json.loads(file.read_bytes()).items()}, {}


def _lines(file: Path) -> Found:
    return {line: number for number, line in enumerate(file.read_text(encoding="utf-8").splitlines())}, {}


_READERS: tuple[tuple[str, Callable[[Path], Found]], ...] = (
    ("tokenizer.json", _fast),
    ("tekken.json", _tekken),
    ("tokenizer.model", _model_file),
    ("vocab.json", _mapping),
    ("vocab.txt", _lines),
)
"""Files that hold a vocabulary, the completest first."""


def _complete(model: Model, file: Path, ids: dict[str, int], added: dict[str, int]) -> Vocabulary:
    """Add what stands in other files: tokens that were added, and which token has which role."""
    config = _settings(model.folder / "tokenizer_config.json")
    further = _settings(model.folder / "added_tokens.json")
    decoder = config.get("added_tokens_decoder")
    listed = {_text(entry): number for number, entry in decoder.items()} if isinstance(decoder, dict) else {}
    for token, number in (*further.items(), *listed.items()):
        if token and str(number).isdecimal():
            added.setdefault(str(token), int(number))
    ids.update({token: number for token, number in added.items() if token not in ids})
    return Vocabulary(ids, frozenset(added), _roles(model, config, ids), file)


def _settings(file: Path) -> Mapping[str, Any]:
    """A small JSON file beside the vocabulary; {} where it is missing or damaged: only the vocabulary is needed."""
    try:
        content = read_json(file)
    except UnreadableModel:
        return {}
    return content if isinstance(content, dict) else {}


def _roles(model: Model, config: Mapping[str, Any], ids: Mapping[str, int]) -> Mapping[str, str]:
    """By the tokenizer's own word, or else by the number in the model's configuration."""
    special = _settings(model.folder / "special_tokens_map.json")
    found = {}
    for role in ROLES:
        key = f"{role.lower()}_token"
        token = _text(config.get(key)) or _text(special.get(key)) or _by_number(model, f"{key}_id", ids)
        if token in ids:
            found[role] = token
    return found


def _by_number(model: Model, key: str, ids: Mapping[str, int]) -> str:
    number = model.text_config.get(key, model.config.get(key))
    number = number[0] if isinstance(number, list) and number else number
    return next((token for token, own in ids.items() if own == number), "")


def _text(entry: Any) -> str:
    """A token that is written as text, or as an object with the text in it."""
    content = entry.get("content") if isinstance(entry, dict) else entry
    return content if isinstance(content, str) else ""
