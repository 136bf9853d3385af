"""The command line of tools that take pictures for the README and the docs with a headless Chromium."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tools import install_test_programs as programs

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"


def run(
    take_all: Callable[[Path, Path], Awaitable[None]], description: str, arguments: Sequence[str] | None = None
) -> int:
    """Let ``take_all`` fill a folder, given Chromium and the folder: 0 when it did, 1 when Chromium is missing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder for the PNG files")
    parser.add_argument("--chromium", type=Path, help="the browser; without it, the one on this machine")
    options = parser.parse_args(arguments)
    chromium = options.chromium or programs.find(programs.CHROMIUM)
    if chromium is None:
        print(programs.remedy([programs.CHROMIUM]), file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)

    async def taking() -> None:
        await take_all(chromium, options.output)

    asyncio.run(taking())
    return 0
