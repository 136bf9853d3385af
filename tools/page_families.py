"""Turn a captured /metrics page of vLLM into the families that the simulator shows.

    python tools/page_families.py CAPTURED_PAGE specwatch/lab/pages/NAME.json

Capture the page after traffic, speculation on, one engine: what such a page holds, a simulated one can show.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

BY_SERVER = ("engine", "model_name", "position", "le")
"""Labels whose values the simulated server decides, or that the boundaries give."""

NOT_CAPTURED = {"vllm:request_success_total": [{"finished_reason": "stop"}]}
"""Series that a page shows once they happen, and that the captured requests (all ran into their limit) left out."""

_SAMPLE = re.compile(r"(?P<name>[^{\s]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def families(page: str) -> list[dict[str, Any]]:
    """The families of a page in its order, without values except those that nothing moves."""
    found: list[dict[str, Any]] = []
    for block in page.split("# HELP ")[1:]:
        head, kind, *samples = block.splitlines()
        name, _, text = head.partition(" ")
        if name.endswith("_created"):
            found[-1]["created"] = True
            continue
        found.append(_family(name, text, kind.rpartition(" ")[2], [_sample(line) for line in samples]))
    return found


def _family(name: str, text: str, kind: str, samples: list[tuple[dict[str, str], str]]) -> dict[str, Any]:
    labels = {label: True for held, _ in samples for label in held if label != "le"}
    family: dict[str, Any] = {"name": name, "type": kind, "help": text, "labels": sorted(labels)}
    series = {}
    for held, value in samples:
        extra = {label: held[label] for label in sorted(held) if label not in BY_SERVER}
        series[tuple(extra.items())] = value
    family["series"] = [dict(extra) for extra in series]
    family["series"] += [extra for extra in NOT_CAPTURED.get(name, []) if extra not in family["series"]]
    if kind == "histogram":
        family["buckets"] = list(dict.fromkeys(held["le"] for held, _ in samples if "le" in held))
    if kind == "gauge" or name.startswith("python_"):
        family["values"] = [float(value) for value in series.values()]
    return family


def _sample(line: str) -> tuple[dict[str, str], str]:
    match = _SAMPLE.fullmatch(line)
    if match is None:
        raise SystemExit(f"not a sample: {line}")
    return dict(_LABEL.findall(match["labels"] or "")), match["value"]


def text(found: list[dict[str, Any]]) -> str:
    """JSON with one family a line, so that a new release shows as a readable difference."""
    lines = ",\n".join(json.dumps(family) for family in found)
    return f"[\n{lines}\n]\n"


def main() -> None:
    """Write the families of the first argument's page to the second argument's file."""
    source, target = map(Path, sys.argv[1:])
    target.write_text(text(families(source.read_text())))


if __name__ == "__main__":
    main()
