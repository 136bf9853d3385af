"""Options of the form NAME=VALUE, and how they meet what a configuration file has under the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from specwatch.config import read_yaml

_Command = TypeVar("_Command", bound=Callable[..., Any])


def pairs_option(option: str, name: str, text: str) -> Callable[[_Command], _Command]:
    """An option that may be repeated, each time with another NAME=VALUE; the parameter ``name`` is their dict."""
    return click.option(option, name, metavar="NAME=VALUE", multiple=True, callback=_pairs, help=text)


def _pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Names and values; what the values may be is left to the configuration's own validation."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise click.BadParameter(f"{name + equals + value!r} is not of the form NAME=VALUE", ctx, param)
    return {name: value for name, _, value in pairs}


def merged(flags: Mapping[str, Any], config_file: Path | None, keys: Iterable[str]) -> dict[str, Any]:
    """The flags, those of ``keys`` added to what the file has under the same key.

    Where the file has something else than a mapping there, the flag is left out, so that the file is refused.
    """
    in_file = read_yaml(config_file) if config_file else {}
    result = dict(flags)
    for key in keys:
        before = in_file.get(key, {})
        result[key] = {**before, **flags[key]} if flags[key] and isinstance(before, dict) else None
    return result
