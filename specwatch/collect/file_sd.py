"""Targets from files, as Prometheus' ``file_sd_configs``: read again when they change."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from specwatch.collect.changed_files import signature
from specwatch.collect.groups import LONGEST_LIST, DiscoveryError, TargetGroup, read_groups
from specwatch.collect.http import Asker
from specwatch.scrape_config import FileSdConfig

MOST_FILES = 1000
"""Of one pattern: who has more meant another folder."""

_YAML = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Leaves every scalar the text that it is, as Prometheus takes labels: 8000, yes and 1.10 included."""


class FileSource:
    """Groups of all files that match; a file that cannot be read keeps what it said before."""

    def __init__(self, config: FileSdConfig) -> None:
        self._config = config
        self._seen: dict[Path, object] = {}
        self._groups: dict[Path, list[TargetGroup]] = {}
        self._problems: dict[Path, str] = {}
        self._too_many: list[str] = []

    async def read(self, _: Asker) -> list[TargetGroup]:
        """The groups, files by name; DiscoveryError, with what is known all the same, where a file is broken."""
        await asyncio.to_thread(self._look)
        groups = [group for path in sorted(self._groups) for group in self._groups[path]]
        if self._problems or self._too_many:
            raise DiscoveryError("; ".join([*self._problems.values(), *self._too_many]), groups)
        return groups

    def _look(self) -> None:
        found: set[Path] = set()
        self._too_many = []
        for pattern in map(Path, self._config.files):
            # As in Prometheus, only the name may hold a pattern, and not the folders above it.
            matching = list(islice(pattern.parent.glob(pattern.name), MOST_FILES + 1))
            found.update(matching[:MOST_FILES])
            if len(matching) > MOST_FILES:
                self._too_many.append(f"{pattern}: more than {MOST_FILES} files match")
        for gone in self._seen.keys() - found:
            for known in (self._seen, self._groups, self._problems):
                known.pop(gone, None)
        for path in found:
            now = signature(path)
            if path not in self._problems and self._seen.get(path) == now:
                continue
            self._seen[path] = now
            try:
                self._groups[path] = _read(path)
                self._problems.pop(path, None)
            except DiscoveryError as problem:
                self._problems[path] = str(problem)


def _read(path: Path) -> list[TargetGroup]:
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST_LIST + 1)
    except OSError as problem:
        raise DiscoveryError(f"{path}: {(problem.strerror or str(problem)).lower()}") from None
    if len(raw) > LONGEST_LIST:
        raise DiscoveryError(f"{path}: larger than {LONGEST_LIST // 2**20} MiB; this is no list of targets")
    return read_groups(_parsed(path, raw), str(path), {"__meta_filepath": str(path)})


def _parsed(path: Path, raw: bytes) -> Any:
    kind = "JSON" if path.suffix == ".json" else "YAML"
    try:
        # No object can be made by this loader, only text, lists and mappings. An empty file has no targets.
        content = json.loads(raw) if kind == "JSON" else yaml.load(raw, Loader=_YAML)  # noqa: S506
    except (ValueError, RecursionError, yaml.YAMLError) as problem:
        mark = getattr(problem, "problem_mark", None)
        line = mark.line + 1 if mark else getattr(problem, "lineno", None)
        raise DiscoveryError(f"{path}{f', line {line}' if line else ''}: not valid {kind}") from None
    return [] if content is None and kind == "YAML" else content
