"""Imports point one way, so that arithmetic never waits for the network nor knows a command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import specwatch

PACKAGE = Path(specwatch.__file__).parent
LEAVES = {"config", "errors", "scrape_config", "secret_files", "vllm", "waiting"}
BELOW_EACH = LEAVES | {"signals"}
MAY_IMPORT = {
    "__main__": {"cli"},
    "cli": BELOW_EACH | {"sidecar", "generate", "measure", "lab", "alerting", "collect", "lint", "push"},
    "sidecar": BELOW_EACH | {"alerting", "collect", "measure"},
    "generate": BELOW_EACH | {"alerting", "collect"},
    "measure": BELOW_EACH | {"alerting", "collect"},
    "lab": BELOW_EACH | {"alerting", "collect", "measure"},
    "lint": {"errors", "vllm"},
    "push": {"errors"},
    "alerting": BELOW_EACH,
    "collect": BELOW_EACH,
    "signals": LEAVES,
    "vllm": {"errors"},
    "config": {"errors", "scrape_config"},
    "scrape_config": set(),
    "secret_files": {"errors"},
    "errors": set(),
    "waiting": set(),
    "__init__": set(),
}
"""Each part and the parts below it. Everyone may import itself, and the version that ``specwatch`` holds."""
SIGNALS_MAY_NOT = {"aiohttp", "asyncio", "datetime", "httpx", "os", "pathlib", "requests", "socket", "time"}
"""What signals/ would need for input, output or a clock: time arrives as an argument there."""


def part(module: Path) -> str:
    """The part of specwatch that a file belongs to: ``signals`` for signals/window.py, ``errors`` for errors.py."""
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(module: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import in a file, those inside functions included."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_every_part_of_the_package_has_its_place_in_this_order():
    assert {part(module) for module in modules()} <= set(MAY_IMPORT)


def test_imports_point_from_the_command_line_down_to_the_signals():
    wrong = []
    for module in modules():
        allowed = MAY_IMPORT[part(module)] | {part(module)}
        for line, name in imports(module):
            top, *rest = name.split(".")
            if top == "specwatch" and rest and rest[0] in MAY_IMPORT and rest[0] not in allowed:
                place = module.relative_to(PACKAGE.parent)
                wrong.append(f"{place}:{line} imports {name}, but {part(module)} may import {sorted(allowed)}")
    assert not wrong, "\n".join(wrong)


def test_signals_neither_read_nor_write_nor_look_at_a_clock():
    wrong = [
        f"{module.relative_to(PACKAGE.parent)}:{line} imports {name}"
        for module in modules()
        if part(module) == "signals"
        for line, name in imports(module)
        if name.split(".")[0] in SIGNALS_MAY_NOT
    ]
    assert not wrong, "\n".join(wrong)


def test_an_import_inside_a_function_counts_and_so_does_a_relative_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_imports.PACKAGE", tmp_path / "specwatch")
    module = tmp_path / "specwatch" / "signals" / "window.py"
    module.parent.mkdir(parents=True)
    module.write_text("def f():\n    import time\n\nfrom ..cli import main\nfrom . import drift\n")
    assert sorted(imports(module)) == [
        (2, "time"),
        (4, "specwatch.cli.main"),
        (5, "specwatch.signals.drift"),
    ]
