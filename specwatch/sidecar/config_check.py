"""Everything that is wrong with a sidecar's configuration file, at once and with its line; what it would do if right.

Files that it names are read, nothing is asked of the network, and nothing is served.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from specwatch.alerting import alertmanager
from specwatch.alerting.receivers import receivers
from specwatch.collect import prometheus_query
from specwatch.collect.discovery import Discovery, Source, Wanted
from specwatch.collect.groups import DiscoveryError
from specwatch.collect.http import http_session
from specwatch.collect.targets import Target
from specwatch.config import SidecarConfig, describe, read_yaml, split_address
from specwatch.errors import InputError, SpecwatchError
from specwatch.sidecar import access, losslessness, tls
from specwatch.sidecar.launched import Launched
from specwatch.sidecar.reload import service_settings
from specwatch.sidecar.run import watch_settings
from specwatch.vllm import calibration

MADE_IF_ABSENT = ("database",)
"""Files that need not be there: their folder has to."""

Place = tuple[str | int, ...]
"""Keys and numbers of items that lead to an entry."""

Found = tuple[Place, str]
"""Where something cannot be used, and why."""


@dataclass(frozen=True)
class Problem:
    """What cannot be used, and where it stands."""

    line: int | None
    """None: it stands nowhere, because something is missing."""
    text: str


@dataclass(frozen=True)
class Promise:
    """What a sidecar with this configuration would do."""

    targets: Sequence[Target]
    """Those that are known without asking anybody."""
    sources: Sequence[str]
    """Where further ones would be found."""
    receivers: Sequence[str]
    """Who would be told."""
    asks: str | None
    """What would be asked in place of scraping, and for what."""
    interval: float
    """Seconds between scrapes, or questions."""
    config: SidecarConfig


@dataclass(frozen=True)
class _Check:
    keys: tuple[str, ...]
    """What it rests on, what it is mostly about in front; where one of these cannot be used it has no meaning."""
    run: Callable[[SidecarConfig], object]


def check(path: Path) -> tuple[list[Problem], Promise | None]:
    """Every problem, by line; where there is none, what would be done. InputError for what is no YAML."""
    entries = read_yaml(path)
    tree = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    found = [*_twice(tree), *_malformed(entries)]
    bad = {str(place[0]) if place else "" for place, _ in found}
    results: dict[str, Any] = {}
    if "" not in bad:  # else entries are good alone and wrong together: nothing can be said of the rest
        config = SidecarConfig.model_validate({key: value for key, value in entries.items() if key not in bad})
        found += _tried(config, bad, results)
    if found:
        problems = [Problem(_line(tree, place), text) for place, text in found]
        return sorted(problems, key=lambda problem: problem.line or 0), None
    return [], _promise(config, results)


def _tried(config: SidecarConfig, bad: set[str], results: dict[str, Any]) -> Iterator[Found]:
    """What cannot be used although it is well written; fills ``results`` with what checks came to."""
    missing = {path: (place, text) for place, path, text in _unreadable(config)}
    yield from missing.values()
    for each in CHECKS:
        if not bad.isdisjoint(each.keys):
            continue
        try:
            results[each.keys[0]] = each.run(config)
        except SpecwatchError as problem:
            if not any(str(path) in str(problem) for path in missing):
                yield (_key_in(str(problem)) or each.keys[0],), str(problem)


def _key_in(text: str) -> str | None:
    """The entry that a message begins with, as an option or as a key."""
    begins = re.match(r"(?:--)?(\w[\w-]*)", text)
    key = begins[1].replace("-", "_") if begins else ""
    return key if key in SidecarConfig.model_fields else None


def _malformed(entries: Mapping[str, Any]) -> Iterator[Found]:
    try:
        SidecarConfig.model_validate(entries)
    except ValidationError as problem:
        yield from ((error["loc"], describe(error, SidecarConfig, {})) for error in problem.errors())


def _twice(tree: yaml.Node | None) -> Iterator[Found]:
    """Keys that stand twice in one mapping: YAML's readers take the last without a word."""
    waiting: list[tuple[Place, yaml.Node | None]] = [((), tree)]
    seen: set[int] = set()  # anchors may lead to one node from many places, and back to itself
    while waiting:
        place, node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        keys = set()
        for part, _, below in _parts(node):
            if part in keys:
                yield (*place, part), f"{_dotted((*place, part))}: stands there twice"
            keys.add(part)
            waiting.append(((*place, part), below))


def _parts(node: yaml.Node | None) -> Iterator[tuple[str | int, int, yaml.Node]]:
    """What a node holds: key or number, line, and the node below."""
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), key.start_mark.line + 1, below) for key, below in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from ((number, below.start_mark.line + 1, below) for number, below in enumerate(node.value))


def _line(node: yaml.Node | None, place: Place) -> int | None:
    """Line of an entry, or of the nearest that holds it; None where not even the first key stands there."""
    line = None
    for part in place:
        found = [(number, below) for key, number, below in _parts(node) if key == part]
        if not found:
            break
        line, node = found[-1]
    return line


def _unreadable(config: SidecarConfig) -> Iterator[tuple[Place, Path, str]]:
    for place, path in _paths(config.model_dump()):
        if place[0] in MADE_IF_ABSENT and not path.exists():
            why = "" if os.access(path.parent, os.W_OK) else "its folder is missing, or this user cannot write there"
        elif not path.is_file():
            why = "it is no file" if path.exists() else "no such file"
        else:
            why = "" if os.access(path, os.R_OK) else "this user cannot read it"
        if why:
            yield place, path, f"{_dotted(place)}: {path}: {why}"


def _paths(value: Any, place: Place = ()) -> Iterator[tuple[Place, Path]]:
    """Every file that is named, however deep."""
    if isinstance(value, Path):
        yield place, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple | list) else ()
    for part, below in parts:
        yield from _paths(below, (*place, part))


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _access(config: SidecarConfig) -> None:
    access.from_config(config, split_address(config.listen)[0])


def _discovery(config: SidecarConfig) -> Discovery:
    """What is known of targets here and now; InputError for files of targets that cannot be read."""
    discovery = Discovery(Wanted.of(config))
    asyncio.run(_read_files([source for source in discovery.sources if source.kind == "file_sd_configs"]))
    discovery.targets()
    if discovery.invalid:
        raise InputError(f"scrape_configs: {discovery.invalid}")
    return discovery


async def _read_files(sources: Sequence[Source]) -> None:
    async with http_session() as session:
        for source in sources:
            try:
                source.groups = await source.reader.read(session) if source.reader else ()
            except DiscoveryError as problem:
                raise InputError(f"job {source.config.job_name!r}: {problem}") from None


def _watch(config: SidecarConfig) -> None:
    record = Launched(config.launch_record).record() if config.launch_record else None
    watch_settings(config, record, calibration.read(config.calibration) if config.calibration else None)


RECEIVER_KEYS = tuple(key for key in SidecarConfig.model_fields if key.startswith(("slack_", "pagerduty_", "webhook_")))
ALERTMANAGER_KEYS = ("alertmanager", "alertmanager_token_file")
PROMETHEUS_KEYS = ("from_prometheus", "prometheus_selector", "prometheus_tenant", "prometheus", "verify_every")

CHECKS = (
    _Check(("listen", "insecure", "read_token_file", "admin_token_file", "client_ca_file", "open_metrics"), _access),
    _Check(("tls_cert_file", "tls_key_file", "client_ca_file"), tls.from_config),
    _Check(PROMETHEUS_KEYS, prometheus_query.from_config),
    _Check(("target", "scrape_configs", "shard", "from_prometheus"), _discovery),
    _Check(("launch_record", "calibration", "fingerprints", "gpu", "gpus", "model"), _watch),
    _Check(("verify_every", "verify_prompts", "verify_token_file"), losslessness.from_config),
    _Check(RECEIVER_KEYS, receivers),
    _Check(ALERTMANAGER_KEYS, alertmanager.addresses),
)
"""What the sidecar itself does with its configuration before it serves."""


def _promise(config: SidecarConfig, results: Mapping[str, Any]) -> Promise:
    discovery: Discovery = results["target"]
    engine: prometheus_query.Engine | None = results["from_prometheus"]
    return Promise(
        targets=discovery.targets(),
        sources=[f"{source.kind} of job {source.config.job_name}" for source in discovery.sources if source.reader],
        receivers=[told.name for keys in (RECEIVER_KEYS, ALERTMANAGER_KEYS) for told in results[keys[0]]],
        asks=f"{engine.url} for the servers with {engine.selector}" if engine else None,
        interval=service_settings(config).interval,
        config=config,
    )
