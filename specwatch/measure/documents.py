"""Documents to measure on: prompts of one domain each, as text or as a chat, with their completions where given."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.measure.prompt_sets import BUILT_IN, FOLDER, SIZE_LIMIT

_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
_WANTED = '{"prompt": "…"} or {"messages": [{"role": …, "content": …}]} is needed, "completion" may follow'


@dataclass(frozen=True)
class Document:
    """One prompt, and what followed it where that is known."""

    domain: str
    place: str
    """File and line, for messages."""
    prompt: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    """Role and content of each message of a chat; empty for a prompt of plain text."""
    completion: str | None = None

    @property
    def digest(self) -> str:
        """Short hash of all that is measured: where it stands is no part of it."""
        content = json.dumps([self.domain, self.prompt, self.messages, self.completion])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read(domains: Sequence[str], limit: int | None = None) -> list[Document]:
    """The documents of ``NAME=FILE.jsonl`` each, or of a built-in set by its name; InputError names file and line.

    ``limit`` is how many of each are taken, from the beginning.
    """
    if not domains:
        raise InputError(f"no documents: give --domain NAME=FILE.jsonl, or one of {', '.join(BUILT_IN)}")
    names = [text.partition("=")[0] for text in domains]
    for name in names:
        if not _NAME.fullmatch(name):
            raise InputError(
                f"--domain {name}: a name of letters, digits, '.', '_' and '-' is needed, then =FILE.jsonl"
            )
        if names.count(name) > 1:
            raise InputError(f"--domain {name} is given twice: put its documents into one file")
    return [document for text in domains for document in _domain(text)[:limit]]


def _domain(text: str) -> list[Document]:
    name, given, file = text.partition("=")
    if not given:
        if name not in BUILT_IN:
            raise InputError(
                f"--domain {name}: built in are {', '.join(BUILT_IN)}; for your own write {name}=FILE.jsonl"
            )
        file = str(FOLDER / f"{name}.jsonl")
    found = [
        _document(name, line, f"{file}:{number}") for number, line in enumerate(_lines(Path(file)), 1) if line.strip()
    ]
    if not found:
        raise InputError(f"{file} holds no documents: one JSON object a line, {_WANTED}")
    return found


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            raw = stream.read(SIZE_LIMIT + 1)
        text = raw.decode("utf-8")
    except OSError as problem:
        raise InputError(f"{path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None
    if len(raw) > SIZE_LIMIT:
        raise InputError(f"{path}: larger than {SIZE_LIMIT // 2**20} MiB; split it")
    return text.split("\n")


def _document(domain: str, line: str, place: str) -> Document:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{place}: no JSON; {_WANTED}") from None
    if not isinstance(entry, dict):
        raise InputError(f"{place}: {_WANTED}")
    completion = entry.get("completion")
    if completion is not None and (not isinstance(completion, str) or not completion):
        raise InputError(f'{place}: "completion" must be a text; leave it out where there is none')
    if "messages" in entry:
        return Document(domain, place, messages=_messages(entry["messages"], place), completion=completion)
    prompt = entry.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise InputError(f"{place}: {_WANTED}")
    return Document(domain, place, prompt=prompt, completion=completion)


def _messages(value: Any, place: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or not value or not all(_is_message(entry) for entry in value):
        raise InputError(f"{place}: {_WANTED}; contents must be texts")
    return tuple((entry["role"], entry["content"]) for entry in value)


def _is_message(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("role"), str) and isinstance(entry.get("content"), str)
