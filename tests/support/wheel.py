"""specwatch as its users get it: a wheel, and a clean environment to install it into."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.programs import ROOT, run


def build_wheel(folder: Path) -> Path:
    """Build specwatch's wheel into a folder."""
    run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT])
    return next(folder.glob("specwatch-*.whl"))


def make_environment(folder: Path, requirement: str, *, python: Path = Path(sys.executable)) -> Path:
    """Make an environment where there is none, install one requirement into it, and return its ``bin``."""
    run([python, "-m", "venv", folder])
    run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement])
    return folder / "bin"
