"""Running a command's asynchronous part so that Ctrl-C ends it in the same way on every Python."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run does from Python 3.11 on: Ctrl-C cancels the work, and then raises KeyboardInterrupt here.

    Before, it is raised wherever the loop is, which may be in a task that nobody waits for any more.
    """
    if sys.version_info >= (3, 11):
        return asyncio.run(work)
    return _run_cancelled_by_interrupts(work)


def _run_cancelled_by_interrupts(work: Coroutine[Any, Any, T]) -> T:
    interrupted = False

    async def guarded() -> T | None:
        task = asyncio.ensure_future(work)

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        try:
            return await task
        except asyncio.CancelledError:
            if not interrupted:
                raise
            return None

    result = asyncio.run(guarded())
    if interrupted:
        raise KeyboardInterrupt
    return result  # type: ignore[return-value]  # None only where it was interrupted
