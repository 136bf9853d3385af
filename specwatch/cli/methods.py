"""``specwatch methods``: which ways to draft a release of vLLM has."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from specwatch.errors import SpecwatchError
from specwatch.vllm import installed
from specwatch.vllm.features import NEWEST, OLDEST
from specwatch.vllm.methods import Method, methods, missing
from specwatch.vllm.refusals import unknown_to_us
from specwatch.vllm.releases import Release


@click.command("methods")
@click.option("--vllm-version", metavar="X", help="Of this release instead of the installed one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(vllm_version: str | None, as_json: bool) -> None:
    """List the methods that a vLLM release can speculate with: what each needs, takes and is good for.

    Any of them is the --method of specwatch launch, or the key method of its plan.
    """
    release = Release.parse(vllm_version) if vllm_version else _installed()
    found = methods(release)
    if as_json:
        click.echo(_as_json(release, found))
        return
    if not found:
        raise SpecwatchError(f"vLLM {release} cannot speculate: that began with {OLDEST}")
    _show(release, found)


def _installed() -> Release:
    try:
        return installed.find().release
    except installed.MissingVllm:
        raise SpecwatchError("no vLLM is installed beside specwatch: name a release with --vllm-version X") from None


def _as_json(release: Release, found: list[Method]) -> str:
    entries = [
        {"method": method.name, "since": method.since, "engine": method.engine} | asdict(method.guide)
        for method in found
    ]
    content = {"release": str(release), "methods": entries, "missing": missing(release)}
    return json.dumps(content, indent=2, ensure_ascii=False)


def _show(release: Release, found: list[Method]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column(f"vLLM {release}", no_wrap=True)
    for heading in ("needs", "GPU memory", "good for"):
        table.add_column(heading, overflow="fold", ratio=1)
    engines = {method.engine for method in found}
    for method in found:
        guide = method.guide
        engine = f", on {method.engine}" if len(engines) > 1 else ""
        table.add_row(f"{method.name}\n  since {method.since}{engine}", guide.needs, guide.memory, guide.good_for)
    console.print(table)
    for reason, absent in _by_reason(missing(release)).items():
        console.print(f"not in {release}: {', '.join(absent)} ({reason})")
    if unknown_to_us(release):
        console.print(f"{release} is newer than what specwatch knows: this is what {NEWEST} has")


def _by_reason(reasons: dict[str, str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        grouped.setdefault(reason, []).append(name)
    return grouped
