"""What is planned: the command line's numbers as vLLM reads them, its ``--config`` file included."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specwatch.vllm.arguments import file_options, option
from specwatch.vllm.preflight.profile import Profile
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Speculation

_MULTIPLES = {letter: 1000**power for power, letter in enumerate("kmgt", 1)} | {
    letter: 1024**power for power, letter in enumerate("KMGT", 1)
}
"""vLLM reads 8k as 8000 and 8K as 8192."""


@dataclass(frozen=True)
class PlannedStart:
    """One start of vLLM, as far as preflight is concerned."""

    release: Release
    target: str
    """Model to serve: a folder or a repository."""
    words: Sequence[str] = ()
    """vLLM's arguments."""
    speculation: Speculation | None = None
    """With its method resolved; None without speculation."""
    starts: bool = True
    """Whether vLLM is to start here and now; else it is planned, and the models may be on another machine."""
    installed: bool = True
    """Whether it is planned for the vLLM of this environment, and so for this machine's GPUs."""
    gpu_memory: int | None = None
    """Bytes of each GPU as the user gave them; None: to be found out."""
    profile: Profile | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _from_file(self) -> Mapping[str, Any]:
        path = option(self.words, "--config")
        return file_options(path) if path else {}

    def text(self, name: str, *aliases: str) -> str | None:
        """The value of a flag of vLLM, from the command line or else from its ``--config`` file."""
        value = option(self.words, name, *aliases)
        if value is None and self._from_file.get(name) is not None:
            value = str(self._from_file[name])
        return value

    def number(self, name: str, *aliases: str) -> int | None:
        """A flag's whole number; None where it is not given, or vLLM is to find one out."""
        return whole_number(self.text(name, *aliases) or "")

    @property
    def tensor_parallel(self) -> int:
        """GPUs that share every layer."""
        return self.number("--tensor-parallel-size", "-tp") or 1

    @property
    def pipeline_parallel(self) -> int:
        """Groups of GPUs that share out the layers."""
        return self.number("--pipeline-parallel-size", "-pp") or 1

    @property
    def draft_tensor_parallel(self) -> int:
        """GPUs that share the draft; by default as many as share the target."""
        asked = self.speculation.options.get("draft_tensor_parallel_size") if self.speculation else None
        return asked if isinstance(asked, int) and asked > 0 else self.tensor_parallel

    @property
    def method(self) -> str | None:
        """How to speculate; None without speculation."""
        return self.speculation.method if self.speculation else None

    @property
    def draft(self) -> str | None:
        """The draft model or head; None where the method has none, or is a class and no model."""
        return self.speculation.model if self.speculation and self.method != "custom_class" else None

    def asks_for(self, key: str) -> Any:
        """The value of a key of the speculative configuration; None where it is not given."""
        return self.speculation.options.get(key) if self.speculation else None


def whole_number(text: str) -> int | None:
    """A number as vLLM writes it (``8192``, ``8K``, ``25.6k``); None for anything else, and for more than 15 digits."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)([kKmMgGtT]?)", text.strip(), re.ASCII)
    if found is None:
        return None
    number, letter = found.groups()
    if not letter or letter.isupper():
        return int(number) * _MULTIPLES.get(letter, 1) if number.isdigit() else None
    return int(float(number) * _MULTIPLES[letter])
