"""Names of targets and models, as the database can hold them."""

from __future__ import annotations


def storable(name: str) -> str:
    """The name, where it holds half of a surrogate pair with that written out: SQLite takes none."""
    return name.encode("utf-8", "backslashreplace").decode()
