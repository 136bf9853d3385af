"""What a vLLM command line asks of speculation, whichever way it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specwatch.vllm.features import Style


@dataclass(frozen=True)
class Note:
    """One thing that a user should know about a start that goes ahead: what changed or deserves a look."""

    subject: str
    """The flag or key it is about, or a word such as ``release``."""
    text: str
    """One sentence, complete without the subject."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Speculation:
    """Method, draft and K, and every other key under its name in ``--speculative-config``."""

    method: str | None = None
    """None: vLLM finds out from the model."""
    model: str | None = None
    """Draft model, head or weights: a folder or a repository; None where the method needs none."""
    num_speculative_tokens: int | None = None
    """K, the draft tokens per step; None: the model's own."""
    options: Mapping[str, Any] = field(default_factory=dict)
    max_concurrency: int | None = None
    """Running requests up to which it may draft, whatever the release calls that; None: always."""

    def config(self) -> dict[str, Any]:
        """The value of ``--speculative-config``, the three main keys first, unset ones left out."""
        main = {
            "method": self.method,
            "model": self.model,
            "num_speculative_tokens": self.num_speculative_tokens,
        }
        return {key: value for key, value in main.items() if value is not None} | dict(self.options)


@dataclass(frozen=True)
class CommandLine:
    """A vLLM command line, taken apart."""

    words: tuple[str, ...]
    """All of it, with a positional model written as ``--model``."""
    rest: tuple[str, ...]
    """The words that do not configure speculation, in their order."""
    place: int
    """Index in ``rest`` where the words on speculation began."""
    speculation: Speculation | None
    """None: the command line asks for none."""
    flags: tuple[str, ...] = ()
    """Flags on speculation by their full names, in order, each once."""
    styles: frozenset[Style] = frozenset()
    file: str | None = None
    """The ``--config`` file that speculation is written in; None where it is on the command line."""
    notes: tuple[Note, ...] = ()
