"""YAML as people like to read and review it: given order, no aliases, blocks for texts of several lines."""

from __future__ import annotations

import json
from typing import Any

import yaml
from pydantic import BaseModel

WIDTH = 10_000
"""Characters after which long texts would be wrapped: never, for PyYAML also breaks lines inside {{ }}."""


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe writer without aliases, with items of a list indented below their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def to_yaml(document: Any, comment: str) -> str:
    """The document as YAML, under ``comment`` as its head. The same document always gives the same bytes."""
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return f"{commented(comment)}\n{body}"


def commented(text: str) -> str:
    """The text as comment lines of YAML."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def choices(config: BaseModel) -> str:
    """The entries of a configuration that are not as they come, as a line of YAML; empty when all are."""
    chosen = config.model_dump(mode="json", exclude_defaults=True)
    return ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in chosen.items())
