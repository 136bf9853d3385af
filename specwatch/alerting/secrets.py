"""Secrets from files, and addresses that hold some: never in a log line, an error or a ``repr``."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from urllib.parse import urlsplit

from specwatch.config import is_loopback
from specwatch.errors import InputError

log = logging.getLogger(__name__)

LARGEST_SECRET = 4096
"""Characters of a secret's file; a webhook's address has fewer than a hundred."""


class Secret:
    """A text that does not show itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"


def read_secret(path: Path, what: str) -> str:
    """The text of the file without surrounding space; InputError names the file and never its content."""
    try:
        readable_by_all = path.stat().st_mode & stat.S_IROTH
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST_SECRET + 1).strip()
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}. It should hold {what}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file. It should hold {what}.") from None
    if not text:
        raise InputError(f"{path}: empty. It should hold {what}.")
    if readable_by_all:
        log.warning("%s holds a secret and every user of this machine can read it: chmod 600 %s", path, path)
    return text


def check_url(url: str, where: str, what: str) -> None:
    """InputError for what is no web address; a warning for one that sends secrets in the clear."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url or len(url) > LARGEST_SECRET:
        raise InputError(f"{where}: expected {what}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        log.warning("%s: messages and their secret leave this machine unencrypted; use https", where)
