"""Which servers to watch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from specwatch.errors import InputError

LONGEST_NAME = 200
"""Characters of a target's name: it becomes a label value, a table cell and part of a message."""


@dataclass(frozen=True)
class Target:
    """One server: a unique name, and the URL of its metrics page."""

    name: str
    url: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What its source says of it, after relabelling."""
    job: str = ""
    """The scrape configuration that it belongs to; empty for one that was named by hand."""
    found_in: str = "--target"
    """Where it was found."""

    @property
    def server(self) -> str:
        """URL of the server itself, without the path of the page."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, "", "", ""))


def parse(text: str) -> Target:
    """A target from ``URL`` or ``NAME=URL``.

    ``localhost:8000`` and ``http://localhost:8000`` mean its ``/metrics``; without a name, host and port are the
    name. Raises InputError for anything else.
    """
    name, equals, url = text.partition("=")
    if not equals or "/" in name or ":" in name:
        name, url = "", text
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"target {text!r}: the port is not a number from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"target {text!r}: write it as http://HOST:PORT or NAME=http://HOST:PORT")
    if parts.username or parts.password:
        raise InputError(f"target {parts.hostname}: credentials do not belong into the URL")
    path = parts.path if parts.path.strip("/") else "/metrics"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    name = name or (f"{host}:{port}" if port else host)
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"target {name[:40]!r}: a name has at most {LONGEST_NAME} characters, all of them printable")
    return Target(name, urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")))


def parse_all(texts: Iterable[str]) -> tuple[Target, ...]:
    """All targets; InputError when there is none or when two have one name."""
    targets = tuple(parse(text) for text in texts)
    if not targets:
        raise InputError("no target: name at least one server with --target http://HOST:PORT")
    twice = [name for name, count in Counter(target.name for target in targets).items() if count > 1]
    if twice:
        raise InputError(f"two targets are called {twice[0]!r}: give each a name of its own with --target NAME=URL")
    return targets
