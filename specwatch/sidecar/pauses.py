"""Long work in the event loop, in steps between which scrapes and answers have their turn."""

from __future__ import annotations

import asyncio
import time

STEP_SECONDS = 0.02
"""Processor time between two pauses. A scrape takes some eight turns of the loop, so it is held up by a fifth of a
second; shorter steps would let long work starve where the machine is busy, and who reads metrics waits ten seconds."""


class Pauses:
    """Of one piece of work."""

    def __init__(self) -> None:
        self._began = time.thread_time()

    async def after_a_step(self) -> None:
        """Give all others a turn where the work since the last pause was long enough."""
        if time.thread_time() - self._began >= STEP_SECONDS:
            await asyncio.sleep(0)
            self._began = time.thread_time()
