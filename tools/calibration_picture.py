"""Take the pictures of a calibration's report that the docs show, by day and by night.

python -m tools.calibration_picture calibration.html [--output docs/images] [--chromium PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from playwright.async_api import ViewportSize

from tools import install_test_programs as programs
from tools.browser import browsing

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
VIEWPORT = ViewportSize(width=1280, height=900)
"""The verdict and the charts; the tables are below."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


async def take(chromium: Path, report: Path, output: Path) -> None:
    """One picture a scheme."""
    async with browsing(chromium) as browser:
        for scheme in SCHEMES:
            page = await browser.new_page(viewport=VIEWPORT, color_scheme=scheme)
            await page.goto(report.resolve().as_uri())
            await page.screenshot(path=output / f"calibration-{scheme}.png")
            await page.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 when the pictures are taken, 1 when Chromium is missing."""
    parser = argparse.ArgumentParser(description="Take the pictures of a calibration's report.")
    parser.add_argument("report", type=Path, help="the HTML file that specwatch calibrate wrote")
    parser.add_argument("--output", type=Path, default=IMAGES, help="folder for the PNG files")
    parser.add_argument("--chromium", type=Path, help="the browser; without it, the one on this machine")
    options = parser.parse_args(arguments)
    chromium = options.chromium or programs.find(programs.CHROMIUM)
    if chromium is None:
        print(programs.remedy([programs.CHROMIUM]), file=sys.stderr)
        return 1
    asyncio.run(take(chromium, options.report, options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main())
