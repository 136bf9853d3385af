"""Whose samples these are: labels of a series, told apart into those of the target and those of vLLM's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specwatch.collect.discovery import Drop, LeftOut
from specwatch.collect.groups import LONGEST_LABEL, MOST_LABELS
from specwatch.collect.labelled import PRIVATE
from specwatch.collect.relabel import Labels, relabel
from specwatch.collect.targets import LONGEST_NAME, Target
from specwatch.scrape_config import PrometheusConfig

NAME = "__name__"

OWN_LABELS = ("model_name", "engine", "position", "le", "finished_reason")
"""Labels that vLLM puts on the series that are read."""

EXPORTED = "exported_"
"""What Prometheus puts before a label of vLLM's where the target has one of the same name."""

Own = tuple[str | None, ...]
"""Name of a series, and the values of OWN_LABELS."""


def parted(labels: Labels) -> tuple[Own, Labels]:
    """A series' name with vLLM's own labels, and the labels of its target; ``labels`` is used up."""
    name = labels.pop(NAME, "")
    if not name.startswith("vllm"):
        return (name, *(None for _ in OWN_LABELS)), labels
    return (name, *(labels.pop(EXPORTED + own, None) or labels.pop(own, None) for own in OWN_LABELS)), labels


def as_text(own: Own) -> str:
    """A series as it stands on a page."""
    name, *values = own
    pairs = zip(OWN_LABELS, values, strict=True)
    inner = ",".join(f'{label}="{_escaped(value)}"' for label, value in pairs if value is not None)
    return f"{name}{{{inner}}}" if inner else f"{name}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def target_of(labels: Mapping[str, str], config: PrometheusConfig, url: str) -> Target | LeftOut:
    """The server that a target's labels name, by ``server_labels`` as they are after relabelling."""
    changed = relabel(
        {name: labels[name] for name in labels if name not in config.replica_labels}, config.relabel_configs
    )
    if changed is None:
        return LeftOut(Drop.RELABEL, "a rule drops it")
    shown = {name: value for name, value in changed.items() if not name.startswith(PRIVATE)}
    missing = [name for name in config.server_labels if not shown.get(name)]
    if missing:
        return LeftOut(
            Drop.INVALID, f"series of {_some(shown)} have no label {missing[0]}: see prometheus.server_labels"
        )
    name = "/".join(shown[label] for label in config.server_labels)
    if len(name) > LONGEST_NAME or not name.isprintable():
        return LeftOut(Drop.INVALID, f"{name[:60]!r} is no name of 1 to {LONGEST_NAME} printable characters")
    if len(shown) > MOST_LABELS or any(len(value) > LONGEST_LABEL for value in shown.values()):
        return LeftOut(Drop.INVALID, f"{name[:60]!r} has more than {MOST_LABELS} labels, or one too long")
    return Target(name, url, shown, shown.get("job", ""), url)


def without(labels: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """The labels but for those."""
    return {name: value for name, value in labels.items() if name not in names}


def contested(name: str, one: Mapping[str, str], other: Mapping[str, str]) -> LeftOut:
    """That two targets have one name at the same time, and what to do about it."""
    differing = ", ".join(sorted(label for label in {*one, *other} if one.get(label) != other.get(label)))
    return LeftOut(
        Drop.DUPLICATE,
        f"two targets are called {name[:60]!r}, and differ in {differing[:200]}: where they are one server that is "
        "scraped twice, name that label in prometheus.replica_labels, else in prometheus.server_labels",
    )


def _some(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value[:40]!r}" for name, value in list(labels.items())[:4]) or "a target without labels"
