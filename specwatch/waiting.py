"""Waiting for something, and not for longer than that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What ``work`` returns; asyncio.TimeoutError after ``seconds``, and the work is cancelled then.

    As asyncio.wait_for, which before Python 3.12 forgets that it was cancelled where the work is done at that moment:
    whoever cancels a task and waits for its end may wait for ever.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_take_note)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(seconds, 0.0))
        if not done:
            raise asyncio.TimeoutError
        return task.result()
    finally:
        task.cancel()


def _take_note(task: asyncio.Future[Any]) -> None:
    """Nobody may be left to hear how it failed."""
    if not task.cancelled():
        task.exception()
