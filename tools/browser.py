"""Chromium without a window, and without a word to anybody: for pictures and for tests of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, async_playwright

ARGUMENTS = (
    "--no-sandbox",  # root, as in containers, cannot have one
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@asynccontextmanager
async def browsing(chromium: Path) -> AsyncIterator[Browser]:
    """A running browser with a profile of its own that is thrown away."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()
