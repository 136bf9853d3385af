"""Writing generated files, all of them or none and never half a file; or checking that they are still the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from specwatch.errors import SpecwatchError


def write_or_check(folder: Path, files: Mapping[str, str], *, check: bool, say: Callable[[str], None]) -> None:
    """Write files into ``folder``, or with ``check`` compare only, and ``say`` what was done.

    Raises SpecwatchError when the folder cannot be written, or holds something else than it is checked for.
    """
    if not check:
        for path in write_all(folder, files):
            say(f"wrote {path}")
        return
    changed = differing(folder, files)
    if changed:
        names = ", ".join(changed)
        raise SpecwatchError(f"{folder} is not what these options generate ({names}): run the same without --check")
    say(f"{folder} is what these options generate")


def write_all(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into ``folder``, which is made where it is missing, and return their paths sorted.

    ``files`` maps paths below the folder, with forward slashes, to texts. Everything is written under passing
    names first and renamed at the end, so that a reader never meets half a file, and a full disk or a folder
    without permission leaves the old ones as they were. Raises SpecwatchError when the folder cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise SpecwatchError(f"cannot write into {folder}: it is no folder; choose another one with --output")
    passing: dict[Path, Path] = {}
    try:
        for name, text in sorted(files.items()):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            passing[path] = path.with_name(f".{path.name}.{os.getpid()}.new")
            passing[path].write_text(text, encoding="utf-8", newline="\n")
        for path, written in passing.items():
            written.replace(path)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise SpecwatchError(f"cannot write into {folder}: {reason}; choose another folder with --output") from None
    finally:
        for written in passing.values():
            with suppress(OSError):
                written.unlink(missing_ok=True)
    return list(passing)


def differing(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Names of the files that ``folder`` lacks or holds with another content, sorted."""
    return [name for name, text in sorted(files.items()) if _content(folder / name) != text.encode()]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
