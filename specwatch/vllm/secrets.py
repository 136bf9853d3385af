"""Keeps secrets off command lines and out of logs: everyone on a machine sees the former, and more read the latter."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

SECRET_FLAGS = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
"""Flags of vLLM whose values are secret, and the variable that vLLM reads in their place."""


def secret_flags(words: Sequence[str]) -> list[str]:
    """The secret flags that are on a command line with a value of their own."""
    return [flag for flag in SECRET_FLAGS if any(_name(word) == flag for word in words)]


def moved(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """A command without the secrets that vLLM also takes from variables, and those variables.

    Several keys in one flag stay: a variable holds only one.
    """
    kept: list[str] = []
    variables: dict[str, str] = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        flag = _name(word)
        values = [word.partition("=")[2]] if "=" in word else []
        while flag in SECRET_FLAGS and queue and not queue[0].startswith("-") and "=" not in word:
            values.append(queue.pop(0))
        if flag in SECRET_FLAGS and len(values) == 1:
            variables[SECRET_FLAGS[flag]] = values[0]
        else:
            kept += [word, *(values if "=" not in word else [])]
    return tuple(kept), variables


def shell_line(words: Sequence[str]) -> str:
    """The command as one line to paste, a secret shown as the variable that should hold it."""
    shown: list[str] = []
    hiding = False
    for word in words:
        flag = _name(word)
        if flag in SECRET_FLAGS:
            shown += [flag, f'"${SECRET_FLAGS[flag]}"']
            hiding = True
        elif word.startswith("-") or not hiding:
            shown.append(shlex.quote(word))
            hiding = False
    return " ".join(shown)


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-") if word.startswith("--") else word
