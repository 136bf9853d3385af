"""Secrets come from files: command lines and logs are read by more people than may know one."""

from __future__ import annotations

from pathlib import Path

from specwatch.errors import InputError

LARGEST = 4096
"""Bytes of a file: keys and tokens have some tens of characters, a webhook's address fewer than a hundred."""


def read_secret(path: Path, option: str) -> str:
    """The secret in a file; InputError, without a word of it, where the file does not hold one line of text.

    ``option`` is what the file was named by, and what the error begins with.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        secret = raw.decode().strip()
    except OSError as problem:
        raise InputError(f"{option} {path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{option} {path}: no text") from None
    if len(raw) > LARGEST or not secret.isprintable():
        raise InputError(f"{option} {path}: a single line of at most {LARGEST} characters is needed")
    if not secret:
        raise InputError(f"{option} {path}: the file is empty")
    return secret
