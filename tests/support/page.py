"""The sidecar's page in a headless browser, and what tests look for on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from playwright.async_api import Page, expect

from specwatch.lab.scenario import Domain
from tests.support.services import chromium
from tools.browser import browsing

HOPELESS = Domain("hopeless", acceptance=0.08)
"""Traffic on which even the assumed draft cost is more than speculation gives."""

WHOLE_STEP = 15.0
"""Seconds between scrapes: one block of the drift detector, and twenty in an alert's window."""

PATIENCE = 60_000
"""Milliseconds until what must appear counts as missing."""

expect.set_options(timeout=PATIENCE)


@dataclass
class Seen:
    """What a browser was asked for, and what it complained about."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@asynccontextmanager
async def page_of(url: str, width: int = 1280) -> AsyncIterator[tuple[Page, Seen]]:
    """The page in a browser, with everything it asks for and complains about."""
    seen = Seen()
    async with browsing(chromium()) as browser:
        page = await browser.new_page(viewport={"width": width, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: message.type == "error" and seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        await page.goto(url)
        yield page, seen


async def signals_of(url: str) -> dict[str, Any]:
    """Targets by name, as the API gives them."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/signals") as answer:
        return {target["target"]["name"]: target for target in (await answer.json())["targets"]}


def row(page: Page, name: str) -> Any:
    """The rows of one server in the table of all."""
    return page.locator(f"tbody[data-server={name!r}]")


def figure(page: Page, name: str, column: str) -> Any:
    """The cell of a server under a column's head."""
    return row(page, name).locator(f"td[data-label={column!r}]")
