"""Named sets of prompts, one a domain of traffic: small ones that come with specwatch, and JSONL files."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from specwatch.errors import InputError

FOLDER = Path(__file__).parent / "prompts"
BUILT_IN = ("code", "json", "prose-es")
"""Python, JSON documents, technical prose in Spanish."""
SIZE_LIMIT = 64 * 2**20
"""Bytes of a file: 10,000 prompts of 1000 tokens are half of that."""
_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one domain."""

    name: str
    prompts: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Short hash of the prompts: another set under the same name is another measurement."""
        return hashlib.sha256("\0".join(self.prompts).encode()).hexdigest()[:16]

    def some(self, count: int, start: int) -> tuple[str, ...]:
        """So many prompts from a place on, going round."""
        return tuple(self.prompts[(start + index) % len(self.prompts)] for index in range(count))


def domain(text: str) -> PromptSet:
    """The prompts of ``NAME=FILE.jsonl``, or of a built-in set by its name alone."""
    name, given, file = text.partition("=")
    if not _NAME.fullmatch(name):
        raise InputError(f"--domain {text}: a name of letters, digits, '.', '_' and '-' is needed, then =FILE.jsonl")
    if not given:
        if name not in BUILT_IN:
            raise InputError(f"--domain {name}: built in are {', '.join(BUILT_IN)}; your own are {name}=FILE.jsonl")
        file = str(FOLDER / f"{name}.jsonl")
    return PromptSet(name, read(Path(file), f"--domain {text}"))


def read(path: Path, asked: str) -> tuple[str, ...]:
    """The prompts of a JSONL file; InputError, beginning with what was ``asked``, names the line."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(SIZE_LIMIT + 1)
        lines = raw.decode("utf-8").split("\n")
    except OSError as problem:
        raise InputError(f"{asked}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{asked}: not a text file in UTF-8") from None
    if len(raw) > SIZE_LIMIT:
        raise InputError(f"{asked}: larger than {SIZE_LIMIT // 2**20} MiB")
    prompts = tuple(_prompt(line, f"{asked}, line {number}") for number, line in enumerate(lines, 1) if line.strip())
    if not prompts:
        raise InputError(f"{asked}: no prompts in it")
    return prompts


def _prompt(line: str, place: str) -> str:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{place}: no JSON") from None
    prompt = entry.get("prompt") if isinstance(entry, dict) else entry
    if not isinstance(prompt, str) or not prompt:
        raise InputError(f'{place}: {{"prompt": "…"}} or a text in quotes is needed')
    return prompt
