"""Two tiny byte-level Llama models for vLLM on a CPU: a target, and a draft that knows only some of its domains.

Everything that decides what the models become is in a ``Recipe``; they are trained once a recipe and kept in a
folder that is named by its hash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from specwatch.errors import SpecwatchError
from specwatch.lab import corpus

Report = Callable[[str, float], None]
"""Called with a stage (``target``, then ``draft``) and the fraction of it that is done, from 0 to 1."""

Diet = tuple[tuple[str, float], ...]
"""Domains with their shares of the training rows; the shares need not add up to 1."""


@dataclass(frozen=True)
class Student:
    """One model to train: its size, and what it reads.

    ``heads`` may be more than ``width`` divided by the size of a head: with one layer, a head is what it takes to
    see one more byte of what came before.
    """

    layers: int
    width: int
    heads: int
    diet: Diet
    steps: int = 400


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what the two models become."""

    target: Student = Student(layers=3, width=128, heads=4, diet=(("code", 1.0), ("json", 1.0), ("es", 1.0)), steps=600)
    draft: Student = Student(layers=1, width=128, heads=4, diet=(("code", 1.0), ("json", 1.0), ("es", 0.05)), steps=800)
    rows: int = 4
    row_tokens: int = 512
    learning_rate: float = 6e-3
    corpus_bytes: int = 2_000_000
    max_position_embeddings: int = 1024
    seed: int = 0
    threads: int = 1
    corpus: str = field(default_factory=corpus.fingerprint)
    version: int = 1
    """Raised when the training code changes what comes out."""

    @property
    def digest(self) -> str:
        """Short hash of every field: the name of the folder that holds the models."""
        fields = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(fields.encode()).hexdigest()[:16]


DEFAULT = Recipe()
"""On vLLM 0.32 at K = 5 and temperature 0, held-out prompts of its domains are accepted at about 0.87 (json), 0.85
(code) and 0.36 (es); ``tests/e2e/test_loop.py`` measures two of them anew."""


@dataclass(frozen=True)
class LabModels:
    """Folders of the two models, in the layout that transformers and vLLM load."""

    target: Path
    draft: Path


def default_cache() -> Path:
    """``$SPECWATCH_CACHE``, or ``~/.cache/specwatch``."""
    return Path(os.environ.get("SPECWATCH_CACHE") or Path.home() / ".cache" / "specwatch")


def prepare(cache: Path | None = None, recipe: Recipe = DEFAULT, report: Report | None = None) -> LabModels:
    """The recipe's models from ``cache``, trained first if they are not there: about two minutes on two cores.

    SpecwatchError when they have to be trained and torch or transformers is missing.
    """
    home = (cache or default_cache()) / "models"
    folder = home / recipe.digest
    if not folder.is_dir():
        with _alone_in(home):
            if not folder.is_dir():
                _train_into(folder, recipe, report or _say_nothing)
    return LabModels(target=folder / "target", draft=folder / "draft")


def _say_nothing(stage: str, fraction: float) -> None:
    pass


@contextlib.contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two processes that need the same models train them once."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _train_into(folder: Path, recipe: Recipe, report: Report) -> None:
    """Train beside ``folder`` and rename at the end: a folder with the recipe's name is always whole."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed; the lock says that none is at work
    try:
        _training().train_pair(recipe, unfinished, report)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _training() -> ModuleType:
    """The module that needs torch, or what to install."""
    try:
        return importlib.import_module("specwatch.lab.training")
    except ImportError as missing:
        raise SpecwatchError(
            f"training the lab's models needs {missing.name}: pip install 'specwatch[torch]'"
        ) from missing
