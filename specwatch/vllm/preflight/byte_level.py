"""Vocabularies of bytes (tiktoken's files, Mistral's tekken.json), written as Hugging Face writes such tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def _alphabet() -> dict[int, str]:
    """A visible character for every byte, as GPT-2 chose them: printable ones stand for themselves."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


_CHARACTERS = _alphabet()


def visible(token: bytes) -> str:
    """A token of bytes as the characters that stand for them: a space is ``Ġ``."""
    return "".join(map(_CHARACTERS.__getitem__, token))


def ranks(content: bytes) -> dict[str, int]:
    """Token → number from a tiktoken file: a line is a token in base64, a space, and its number; else ValueError."""
    return dict(_ranks(content))


def _ranks(content: bytes) -> Iterator[tuple[str, int]]:
    for line in content.splitlines():
        if line:
            token, number = line.split()
            yield visible(base64.b64decode(token, validate=True)), int(number)


def tekken(content: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Tokens and special tokens → number from tekken.json; ValueError where it is none.

    Special tokens have the first numbers, all others follow by rank; the list may hold more than are used.
    """
    try:
        config, listed = content["config"], content.get("special_tokens") or []
        reserved, size = int(config["default_num_special_tokens"]), int(config["default_vocab_size"])
        words: Sequence[Mapping[str, Any]] = content["vocab"][: size - reserved]
        tokens = {visible(base64.b64decode(word["token_bytes"])): int(word["rank"]) + reserved for word in words}
        return tokens, {str(token["token_str"]): int(token["rank"]) for token in listed}
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"no tekken vocabulary: {problem!r}") from None
