"""What was made of files, made again when they change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from specwatch.errors import InputError

log = logging.getLogger(__name__)

Made = TypeVar("Made")


def signature(path: Path) -> tuple[int, int, int] | None:
    """Differs after a file was written or replaced; None where there is none. Follows links, which Kubernetes swaps."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class MadeOfFiles(Generic[Made]):
    """A value made of files. While they cannot be used, the one made before stands, and the log says so once."""

    def __init__(self, paths: Sequence[Path], make: Callable[[], Made]) -> None:
        self._paths = tuple(paths)
        self._make = make
        self._signatures: object = object()
        self._made: list[Made] = []

    def get(self) -> Made:
        """The value; InputError where it never could be made."""
        signatures = [signature(path) for path in self._paths]
        if signatures == self._signatures:
            return self._made[0]
        try:
            self._made = [self._make()]
        except InputError as problem:
            if not self._made:
                raise
            log.warning("%s; what it held before stands", problem)
        self._signatures = signatures
        return self._made[0]
