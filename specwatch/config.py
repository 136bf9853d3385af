"""File, environment and flags into one validated configuration; every bad entry is named at once."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specwatch.errors import InputError

LARGEST_FILE = 2**20
"""Bytes of a configuration file: a thousand targets take a tenth of it."""


class SidecarConfig(BaseModel):
    """What ``specwatch sidecar`` needs. Keys of the file are the flags with underscores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: tuple[str, ...] = ()
    listen: str = "127.0.0.1:9108"
    insecure: bool = False
    interval: Annotated[float, Field(ge=0.2, le=3600)] = 5.0
    timeout: Annotated[float, Field(gt=0, le=600)] = 5.0
    launch_record: Path | None = None
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)] | None = None
    draft_cost: Annotated[float, Field(ge=0, le=10)] | None = None
    slack_webhook_file: Path | None = None
    pagerduty_routing_key_file: Path | None = None
    pagerduty_url: str | None = None
    public_url: str | None = None
    runbooks_url: str | None = None
    time_scale: Annotated[float, Field(gt=0, le=1)] = 1.0


Config = TypeVar("Config", bound=BaseModel)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; InputError names the file and the line for anything else."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{path}: larger than {LARGEST_FILE // 1024} KiB; this is no configuration file")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{where}: not valid YAML: {getattr(problem, 'problem', problem)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, found a {type(content).__name__}")
    return content


def load(model: type[Config], file: Path | None, flags: Mapping[str, Any]) -> Config:
    """Merge a file with flags (flags win; None and empty ones count as not given) and validate.

    InputError lists every bad entry, each with the key and, for an unknown key, the nearest known one.
    """
    entries = read_yaml(file) if file else {}
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    try:
        return model.model_validate({**entries, **given})
    except ValidationError as problem:
        lines = [_describe(error, model) for error in problem.errors()]
        where = f"{file} or the command line" if file else "the command line"
        raise InputError("\n  ".join([f"{where}: {len(lines)} entries cannot be used", *lines])) from None


def _describe(error: Any, model: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, model.model_fields, n=1)
        return f"{key}: unknown" + (f"; did you mean {near[0]}?" if near else "")
    return f"{key}: {error['msg']}, got {str(error['input'])[:60]!r}"
