"""Work that is done again and again beside the scrapes, and that no defect ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


async def again(work: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Do it once every so many seconds; returns only by cancellation. What it trips over is logged when it begins."""
    failed = False
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception:
            if not failed:
                log.exception("a defect of specwatch in keeping what it knows")
            failed = True
        else:
            failed = False
