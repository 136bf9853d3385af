"""Prometheus' relabelling: rules that change the labels of a target, or drop it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

from specwatch.scrape_config import LABEL_NAME, Action, RelabelConfig

Labels = dict[str, str]

_REFERENCE = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)\})", re.ASCII)


def relabel(labels: Mapping[str, str], rules: Sequence[RelabelConfig]) -> Labels | None:
    """The labels after every rule in turn; None where one of them drops the target."""
    changed: Labels | None = dict(labels)
    for rule in rules:
        if changed is None:
            return None
        # Compiled once: re remembers what it compiled.
        changed = _ACTIONS[rule.action](changed, rule, re.compile(rule.regex, re.DOTALL))
    return changed


def _source(labels: Labels, rule: RelabelConfig) -> str:
    return rule.separator.join(labels.get(name, "") for name in rule.source_labels)


def _replace(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels:
    match = regex.fullmatch(_source(labels, rule))
    if match is None:
        return labels
    name = _expand(rule.target_label or "", match)
    if not LABEL_NAME.fullmatch(name):
        return labels
    value = _expand(rule.replacement, match)
    # An empty label and no label are the same.
    return {**labels, name: value} if value else {other: labels[other] for other in labels if other != name}


def _keep(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels | None:
    return labels if regex.fullmatch(_source(labels, rule)) else None


def _drop(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels | None:
    return None if regex.fullmatch(_source(labels, rule)) else labels


def _hashmod(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels:
    # The last eight bytes of MD5, as Prometheus takes them: who shards both must get the same shards.
    digest = hashlib.md5(_source(labels, rule).encode(), usedforsecurity=False).digest()
    return {**labels, rule.target_label or "": str(int.from_bytes(digest[8:], "big") % (rule.modulus or 1))}


def _labelmap(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels:
    mapped = {
        _expand(rule.replacement, match): value for name, value in labels.items() if (match := regex.fullmatch(name))
    }
    return {**labels, **{name: value for name, value in mapped.items() if LABEL_NAME.fullmatch(name)}}


def _labeldrop(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels:
    return {name: value for name, value in labels.items() if not regex.fullmatch(name)}


def _labelkeep(labels: Labels, rule: RelabelConfig, regex: re.Pattern[str]) -> Labels:
    return {name: value for name, value in labels.items() if regex.fullmatch(name)}


_ACTIONS: Mapping[Action, Callable[[Labels, RelabelConfig, re.Pattern[str]], Labels | None]] = {
    Action.REPLACE: _replace,
    Action.KEEP: _keep,
    Action.DROP: _drop,
    Action.HASHMOD: _hashmod,
    Action.LABELMAP: _labelmap,
    Action.LABELDROP: _labeldrop,
    Action.LABELKEEP: _labelkeep,
}


def _expand(template: str, match: re.Match[str]) -> str:
    """``$1``, ``${1}`` and ``${name}`` become groups, ``$$`` a dollar; a group that there is not becomes nothing."""

    def value(reference: re.Match[str]) -> str:
        if reference[1]:
            return "$"
        name = reference[2] or reference[3]
        try:
            return match[int(name) if name.isdecimal() else name] or ""
        except IndexError:
            return ""

    return _REFERENCE.sub(value, template)
