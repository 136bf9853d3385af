"""One run: which files, what is in them, what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from specwatch.errors import InputError
from specwatch.lint.checks import lint
from specwatch.lint.findings import Finding, Level
from specwatch.lint.fixes import mend
from specwatch.lint.reading import TEXT_FILES, content, sources
from specwatch.lint.sources import Kind, Source
from specwatch.vllm.features import OLDEST
from specwatch.vllm.releases import Release

MOST_FILES = 10_000
"""Files in folders that are looked into; more than that is a disk, not a repository of rules."""


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    release: Release
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    """The files that hold something that is checked."""
    problems: tuple[str, ...] = ()
    """Files that could not be used, each with the reason."""
    mended: int = 0
    """Names that were changed."""

    @property
    def failed(self) -> bool:
        """Whether anything but notes was found."""
        return any(finding.code.level is not Level.NOTE for finding in self.findings)


def run(paths: Sequence[Path], release: Release, fix: bool = False) -> Outcome:
    """Lint files, and the YAML and JSON files in folders, for a release of vLLM; with ``fix``, mend what can be.

    InputError for a release before the first that speculates.
    """
    if release.numbers < OLDEST.numbers:
        raise InputError(f"vLLM {release} cannot speculate: the first release that can is {OLDEST}")
    read, texts, problems = _read(paths)
    findings = lint(read, release)
    mended = mend(findings, texts) if fix else {}
    if mended:
        read, texts, problems = _read(paths)
        findings = lint(read, release)
    files = dict.fromkeys(source.file for source in read if source.kinds != {Kind.NOT_CHECKED})
    return Outcome(release, tuple(findings), tuple(files), tuple(problems), sum(mended.values()))


def _read(paths: Sequence[Path]) -> tuple[list[Source], dict[str, str], list[str]]:
    """Sources, the texts of their files, and what could not be used. In folders, other files are passed over."""
    read: list[Source] = []
    texts: dict[str, str] = {}
    problems: list[str] = []
    for path in dict.fromkeys(paths):
        known = len(read) + len(problems)
        with _noting(problems):
            for file in _files(path):
                with _noting(problems):
                    texts[str(file)] = text = content(file)
                    read += sources(str(file), text)
            if len(read) + len(problems) == known:
                what = "no rules for Prometheus, no Alertmanager configuration and no Grafana dashboard"
                raise InputError(f"{path}: it holds {what}")
    return read, texts, problems


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """Add what makes a file unusable to the problems, and go on."""
    try:
        yield
    except InputError as problem:
        problems.append(str(problem))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    number = 0
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(TEXT_FILES) and not name.startswith("."):
                number += 1
                if number > MOST_FILES:
                    raise InputError(f"{path}: more than {MOST_FILES} files; name the folders that hold rules")
                yield Path(folder) / name
