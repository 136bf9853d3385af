"""Prometheus' target groups: lists of addresses that share labels, as its files and servers tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specwatch.scrape_config import LABEL_NAME

MOST_LABELS = 64
"""Of a target, those of its source included; Kubernetes' own discovery stays below."""
LONGEST_LABEL = 1024
"""Characters of a label's name or value; relabelling joins several."""
MOST_ADDRESSES = 100_000
"""Of one list. Far more than are watched, for rules may pick a few out of many."""
LONGEST_LIST = 16 * 2**20
"""Bytes of a list of targets: ten thousand with ten labels each take about five million."""


@dataclass(frozen=True)
class TargetGroup:
    """Addresses and what is said of all of them."""

    targets: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    found_in: str = ""
    """Where, for people."""


class DiscoveryError(Exception):
    """A list of targets that could not be had or read; the text says which and why."""

    def __init__(self, text: str, groups: list[TargetGroup] | None = None) -> None:
        super().__init__(text)
        self.groups = groups
        """What is known all the same; None: whatever was known before."""


def read_groups(content: Any, found_in: str, meta: Mapping[str, str]) -> list[TargetGroup]:
    """Groups of a parsed list, each with the labels ``meta`` added; DiscoveryError names the entry that is none."""
    if not isinstance(content, list):
        raise DiscoveryError(f"{found_in}: expected a list of groups, each with targets and labels")
    groups = [_group(entry, f"{found_in}, group {number}", found_in, meta) for number, entry in enumerate(content, 1)]
    if sum(len(group.targets) for group in groups) > MOST_ADDRESSES:
        raise DiscoveryError(f"{found_in}: more than {MOST_ADDRESSES} addresses")
    return groups


def _group(entry: Any, place: str, found_in: str, meta: Mapping[str, str]) -> TargetGroup:
    if not isinstance(entry, dict) or not entry.keys() <= {"targets", "labels"}:
        raise DiscoveryError(f"{place}: expected targets and labels, and nothing else")
    targets, labels = entry.get("targets") or [], entry.get("labels") or {}
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise DiscoveryError(f"{place}: targets: expected a list of HOST:PORT")
    if not isinstance(labels, dict) or not all(_is_label(*label) for label in labels.items()):
        raise DiscoveryError(
            f"{place}: labels: expected names of letters, digits and underscores, each with a text of at most "
            f"{LONGEST_LABEL} characters"
        )
    if len(labels) > MOST_LABELS:
        raise DiscoveryError(f"{place}: more than {MOST_LABELS} labels")
    return TargetGroup(tuple(targets), {**labels, **meta}, found_in)


def _is_label(name: Any, value: Any) -> bool:
    known = isinstance(name, str) and isinstance(value, str)
    return known and len(name) <= LONGEST_LABEL and len(value) <= LONGEST_LABEL and bool(LABEL_NAME.fullmatch(name))
