"""Long work in the event loop, in steps with pauses as long as the steps: half of the time stays for scrapes."""

from __future__ import annotations

import asyncio
import time

STEP_SECONDS = 0.005
"""Shortest work between two pauses: as long as Python's own threads go on before another's turn."""


class Pauses:
    """Of one piece of work."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def after_a_step(self) -> None:
        """Pause where the work since the last pause was long enough."""
        worked = time.monotonic() - self._began
        if worked >= STEP_SECONDS:
            await asyncio.sleep(worked)
            self._began = time.monotonic()
