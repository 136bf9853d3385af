"""Check dashboards/*.json against the schema that Grafana itself is built with.

    python -m tools.grafana.schema [FOLDER]

JSON schemas are generated from the TypeScript types of npm's ``@grafana/schema``: one of dashboards, one of each panel
type's options and custom field settings. Wrong types and unknown keys are mistakes; a key that Grafana fills in is not.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator
from jsonschema.exceptions import ValidationError

from tools.grafana import npm

TYPES = npm.PROJECT / "node_modules" / "@grafana" / "schema" / "dist" / "types" / "raw"
SCHEMAS = npm.CACHE / "schemas"
DASHBOARDS = npm.PROJECT.parent.parent / "dashboards"

ALLOWED = {"expr", "step", "tagKeys", "textFormat", "titleFormat", "useValueForTime"}
"""Keys of an annotation that belong to its data source: the schema knows those of Grafana's own one alone."""


def generated(kind: str, folder: Path, name: str) -> Any:
    """The JSON schema of the exported types in ``folder``, generated where it is not in the cache."""
    cached, source = SCHEMAS / f"{kind}.json", folder / "types.gen.d.ts"
    if not cached.exists() or cached.stat().st_mtime < npm.stamp().stat().st_mtime:
        SCHEMAS.mkdir(parents=True, exist_ok=True)
        cached.write_text(
            npm.script("ts-json-schema-generator", "--path", str(source), "--type", name, "--no-type-check")
        )
    return json.loads(cached.read_text())


def problems(dashboard: Any) -> Iterator[str]:
    """Where a dashboard is not what Grafana's types say, in words."""
    whole = _lenient(generated("dashboard", TYPES / "dashboard" / "x", "Dashboard"))
    yield from (problem for problem in _mistakes(whole, dashboard, "dashboard") if not _is_allowed(problem))
    for panel in _panels(dashboard["panels"]):
        kind = panel["type"].replace("-", "")
        folder = TYPES / "composable" / kind / "panelcfg" / "x"
        if not folder.exists():
            yield f"panel {panel['title']!r}: Grafana has no panel type {panel['type']!r}"
            continue
        yield from _panel_problems(panel, _lenient(generated(kind, folder, "*"))["definitions"])


def _panel_problems(panel: Any, definitions: Any) -> Iterator[str]:
    custom = panel.get("fieldConfig", {}).get("defaults", {}).get("custom", {})
    for name, held in (("Options", panel.get("options", {})), ("FieldConfig", custom)):
        if name in definitions:
            schema = {"$ref": f"#/definitions/{name}", "definitions": definitions}
            yield from _mistakes(schema, held, f"panel {panel['title']!r} {name}")
        elif held:
            yield f"panel {panel['title']!r}: {panel['type']} has no {name}, and {held} is there"


def _panels(panels: Any) -> Iterator[Any]:
    for panel in panels:
        if panel["type"] == "row":
            yield from _panels(panel.get("panels", []))
        else:
            yield panel


def _lenient(schema: Any) -> Any:
    """The same schema, asking for no key: Grafana fills in what is missing."""
    if isinstance(schema, dict):
        # A list: under this name a schema may also have a property.
        kept = {key: value for key, value in schema.items() if key != "required" or not isinstance(value, list)}
        return {key: _lenient(value) for key, value in kept.items()}
    return [_lenient(value) for value in schema] if isinstance(schema, list) else schema


def _mistakes(schema: Any, instance: Any, where: str) -> Iterator[str]:
    for error in Draft7Validator(schema).iter_errors(instance):
        for leaf in _leaves(error):
            path = ".".join(str(step) for step in leaf.absolute_path)
            yield f"{where} {path}: {leaf.message[:300]}"


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """Of a failed choice, the mistakes of the alternative that comes nearest."""
    if not error.context:
        yield error
        return
    alternatives: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        alternatives.setdefault(inner.schema_path[0], []).append(inner)
    deepest = max(alternatives.values(), key=lambda group: (max(len(e.absolute_path) for e in group), -len(group)))
    for inner in deepest:
        yield from _leaves(inner)


def _is_allowed(problem: str) -> bool:
    where, _, words = problem.partition(": ")
    unknown = set(words.partition("(")[2].partition(" w")[0].replace("'", "").split(", "))
    return where.startswith("dashboard annotations.list") and unknown <= ALLOWED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 when every dashboard is as Grafana's types say, 1 when one is not."""
    parser = argparse.ArgumentParser(description="Check dashboards against Grafana's own schema.")
    parser.add_argument("folder", type=Path, nargs="?", default=DASHBOARDS)
    folder = parser.parse_args(arguments).folder
    paths = sorted(folder.glob("*.json"))
    if not paths:
        parser.error(f"{folder} holds no dashboard")
    npm.install()
    found = {path.name: list(dict.fromkeys(problems(json.loads(path.read_text())))) for path in paths}
    for name, words in found.items():
        print(f"{name}: {len(words) or 'no'} problems", *words, sep="\n  ")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
