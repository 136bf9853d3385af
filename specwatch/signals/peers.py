"""What the other replicas of a model did while one server's acceptance fell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peers:
    """The other replicas, as one of them sees them. Those that cannot tell yet are in neither list."""

    name: str = "this server"
    moved: tuple[str, ...] = ()
    """Names of those whose acceptance fell as well."""
    stayed: tuple[str, ...] = ()
    """Names of those whose acceptance is as it was."""

    @property
    def known(self) -> int:
        """Replicas that can be compared with."""
        return len(self.moved) + len(self.stayed)


ALONE = Peers()
"""Nobody to compare with."""

SHOWN_NAMES = 3
"""Names in a sentence before the rest is counted."""


def listed(names: tuple[str, ...]) -> str:
    """Names for a sentence: ``a, b and 5 more``."""
    shown = [name[:40] for name in names[:SHOWN_NAMES]]
    if len(names) > SHOWN_NAMES:
        return f"{', '.join(shown)} and {len(names) - SHOWN_NAMES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
