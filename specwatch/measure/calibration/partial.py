"""What is measured so far, in a file beside the result, so that an interrupted calibration can be gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.measure.calibration.blocks import Block
from specwatch.measure.calibration.runs import Run, as_json, from_json

FORMAT = 1
"""Number of this layout; another is refused."""
SIZE_LIMIT = 2**30
"""Bytes: a thousand blocks of 200 answers of 1000 tokens are two thirds of it."""


class Partial:
    """The runs that are in the file; a line a run, written and synced when the run has ended.

    InputError when the file holds another measurement. A last line that was cut off is dropped.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.runs: dict[Block, Run] = {}
        about = json.loads(json.dumps({"format": FORMAT} | dict(about)))
        if path.exists():
            self._resume(about)
        else:
            self._begin(about)

    def keep(self, run: Run) -> None:
        """Add a run, on disk before anything else is done."""
        self._append(as_json(run))
        self.runs[run.block] = run

    def remove(self) -> None:
        """The result is written: the file has done its work."""
        self.path.unlink(missing_ok=True)

    def _begin(self, about: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the reason is told when it is written to
            self.path.touch(mode=0o600)  # it holds what servers answered
        self._append(about)

    def _append(self, entry: Any) -> None:
        try:
            with self.path.open("ab") as stream:
                stream.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as problem:
            raise InputError(f"{self.path}: {(problem.strerror or str(problem)).lower()}") from None

    def _resume(self, about: Mapping[str, Any]) -> None:
        try:
            if self.path.stat().st_size > SIZE_LIMIT:
                raise InputError(f"{self.path}: larger than {SIZE_LIMIT // 2**20} MiB: no calibration of specwatch")
            raw = self.path.read_bytes()
        except OSError as problem:
            raise InputError(f"{self.path}: {(problem.strerror or str(problem)).lower()}") from None
        whole = raw[: raw.rfind(b"\n") + 1]
        try:
            first, *entries = [json.loads(line) for line in whole.splitlines()] or [about]
            found = [from_json(entry) for entry in entries]
        except ValueError:
            raise InputError(f"{self.path}: no unfinished calibration; remove it, or choose another --output") from None
        self._refuse_another(first, about)
        if len(whole) < len(raw):
            os.truncate(self.path, len(whole))
        if not whole:
            self._append(about)
        self.runs = {run.block: run for run in found}

    def _refuse_another(self, kept: Any, asked: Mapping[str, Any]) -> None:
        kept = kept if isinstance(kept, dict) else {}
        other = [f"{key} {kept.get(key)!r}, not {asked[key]!r}" for key in asked if kept.get(key) != asked[key]]
        if other:
            raise InputError(
                f"{self.path}: an unfinished calibration with {' and '.join(other)}; go on with the options it was "
                "begun with, remove it, or choose another --output"
            )
