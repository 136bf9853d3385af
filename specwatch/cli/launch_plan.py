"""Puts a launch together: a plan's file, environment variables, flags, and vLLM's own command line."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from specwatch.config import load
from specwatch.errors import InputError
from specwatch.vllm import plan
from specwatch.vllm.arguments import option
from specwatch.vllm.calibration import Calibration, read
from specwatch.vllm.plan import LaunchPlan
from specwatch.vllm.speculation import CommandLine, Note

VARIABLES = "SPECWATCH_LAUNCH_"
"""What environment variables for a plan's keys begin with; the key in upper case follows."""
_SLIP = 0.8
"""How near an unknown variable must be to a known one to be a slip: Kubernetes sets SPECWATCH_LAUNCH_SERVICE_HOST
beside a service that is called specwatch-launch."""


def put_together(
    line: CommandLine, file: Path | None, flags: Mapping[str, Any], typed: Collection[str]
) -> tuple[LaunchPlan, CommandLine]:
    """The plan, and the command line to translate: as it was given where the plan says nothing about vLLM.

    ``flags`` are options of specwatch by a plan's keys, ``typed`` those of them that are on the command line.
    InputError names every entry that cannot be used.
    """
    settings = load(LaunchPlan, file, flags, VARIABLES)
    if not settings.describes_server:
        return settings, line
    asked, unnamed = plan.entries(line.speculation) if line.speculation else ({}, {})
    target = option(line.rest, "--model")
    asked |= {"target": target} if target else {}
    for key in typed:
        if asked.get(key, flags[key]) != flags[key]:
            raise InputError(f"{key} is given twice: {flags[key]} by --{key} and {asked[key]} by an option of vLLM")
    settings = load(LaunchPlan, file, {**flags, **asked}, VARIABLES)
    return settings, plan.merged(line, settings, unnamed)


def limited(line: CommandLine, settings: LaunchPlan) -> tuple[CommandLine, Calibration | None]:
    """The command line with what the plan says about many requests at a time; InputError without speculation."""
    limit, file = settings.max_spec_concurrency, settings.calibration
    if limit is None and file is None:
        return line, None
    if line.speculation is None:
        asked = "--calibration" if limit is None else "--max-spec-concurrency"
        raise InputError(f"{asked}: the plan asks for no speculation, so there is none to limit")
    speculation = replace(line.speculation, max_concurrency=limit)
    if file is None:
        return replace(line, speculation=speculation), None
    calibration = read(file)
    return replace(line, speculation=calibration.applied(speculation)), calibration


def slips(options: Iterable[str]) -> list[Note]:
    """Environment variables that look like misspelt keys; ``options`` are those of the command line."""
    known = [VARIABLES + key.upper() for key in (*LaunchPlan.model_fields, *options)]
    unknown = [name for name in os.environ if name.startswith(VARIABLES) and name not in known]
    near = {name: get_close_matches(name, known, n=1, cutoff=_SLIP) for name in unknown}
    return [Note(name, f"{name} is not read; did you mean {found[0]}?") for name, found in near.items() if found]
