"""Brings Grafana's packages from the registry that npm is configured for, and builds the page that draws dashboards."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parent
CACHE = PROJECT.parent.parent / ".cache" / "panels"
VIEWER = CACHE / "viewer"

REMEDY = "npm is missing: install Node.js 20 or newer, which brings it"


def stamp() -> Path:
    """A file that npm writes when it has brought packages."""
    return PROJECT / "node_modules" / ".package-lock.json"


def install() -> None:
    """Bring the packages of package-lock.json, unless they are here: 0.5 GB, under a minute."""
    if not stamp().exists() or stamp().stat().st_mtime < (PROJECT / "package-lock.json").stat().st_mtime:
        _run("npm", "ci", "--no-progress")


def build() -> Path:
    """Build the page where its sources are newer, and return its folder."""
    install()
    sources = [*PROJECT.glob("src/*"), PROJECT / "vite.config.js", PROJECT / "package-lock.json"]
    page = VIEWER / "index.html"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "building").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # vite refuses to build twice at once
        if not page.exists() or page.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            _run("npx", "vite", "build", "--logLevel", "warn", "--outDir", str(VIEWER))
    return VIEWER


def script(name: str, *arguments: str) -> str:
    """What a program of the packages prints."""
    return _run("npx", "--no-install", name, *arguments)


def _run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise SystemExit(REMEDY)
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
