"""Secrets from files, and addresses that hold some: never in a log line, an error or a ``repr``."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from urllib.parse import urlsplit

from specwatch.config import is_loopback
from specwatch.errors import InputError
from specwatch.secret_files import LARGEST, read_secret

log = logging.getLogger(__name__)


class Secret:
    """A text that does not show itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"


def read_private(path: Path, option: str) -> str:
    """The secret in a file, as ``read_secret`` has it; a warning where every user of this machine can read it."""
    text = read_secret(path, option)
    if path.stat().st_mode & stat.S_IROTH:
        log.warning("%s holds a secret and every user of this machine can read it: chmod 600 %s", path, path)
    return text


def check_url(url: str, where: str, what: str) -> None:
    """InputError for what is no web address; a warning for one that sends secrets in the clear."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url or len(url) > LARGEST:
        raise InputError(f"{where}: expected {what}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        log.warning("%s: messages and their secret leave this machine unencrypted; use https", where)
