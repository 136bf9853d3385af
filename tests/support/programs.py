"""Run a program to its end from a test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""


def run(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that must succeed; an AssertionError with everything it said where it does not."""
    done = finish(command, cwd=cwd, env=env)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done


def finish(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, however it ends."""
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900
    )


def outside_pytest() -> dict[str, str]:
    """This environment without what would make another pytest believe it is a worker of this one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
