"""Mending names in place: a few characters change, and everything else of the file stays as it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from specwatch.errors import SpecwatchError
from specwatch.lint.findings import Finding, Fix
from specwatch.lint.reading import content, sources


def mend(findings: Iterable[Finding], texts: dict[str, str]) -> dict[str, int]:
    """Write the fixes of the findings into their files, and return how many names changed in each.

    ``texts`` are the files' texts when they were linted. SpecwatchError where a file changed since or cannot be
    written; files before it in the order are written then.
    """
    wanted: dict[str, set[Fix]] = {}
    for finding in findings:
        if finding.fixes:
            wanted.setdefault(finding.file, set()).update(finding.fixes)
    for file, fixes in wanted.items():
        text = mended(texts[file], fixes)
        sources(file, text)  # raises where it could not be read again
        _replace(Path(file), texts[file], text)
    return {file: len(fixes) for file, fixes in wanted.items()}


def mended(text: str, fixes: Iterable[Fix]) -> str:
    """The text with the fixes made, from its end to its beginning so that the places stay right."""
    for fix in sorted(fixes, key=lambda fix: fix.start, reverse=True):
        if text[fix.start : fix.end] == fix.old:
            text = text[: fix.start] + fix.new + text[fix.end :]
    return text


def _replace(path: Path, before: str, after: str) -> None:
    """Put a text in the place of another, all at once; a link stays a link to the file that it is to."""
    target = path.resolve()
    passing = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        if content(path) != before:
            raise SpecwatchError(f"{path}: changed while it was linted; run it again")
        passing.write_bytes(after.encode("utf-8"))
        shutil.copymode(target, passing)
        passing.replace(target)
    except OSError as problem:
        raise SpecwatchError(f"cannot write {path}: {problem.strerror or problem}") from None
    finally:
        with suppress(OSError):
            passing.unlink(missing_ok=True)
