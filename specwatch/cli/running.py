"""Running a command's asynchronous part so that signals end it in order, in the same way on every Python."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What asks a command to end that has started others."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """As asyncio.run does from Python 3.11 on: Ctrl-C cancels the work, and then raises KeyboardInterrupt here.

    Before, it is raised wherever the loop is, which may be in a task that nobody waits for any more. Only the main
    thread hears signals.
    """
    heard = (signal.SIGINT,) if threading.current_thread() is threading.main_thread() else ()
    try:
        return asyncio.run(cancelled_by(heard, work))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def cancelled_by(
    numbers: Collection[signal.Signals], work: Awaitable[T], told: Callable[[], None] = lambda: None
) -> T:
    """What ``work`` returns; each of these signals cancels it, so that what it started is ended in order.

    A second one hurries that. ``told`` is called after each.
    """
    task = asyncio.ensure_future(work)

    def cancel() -> None:
        task.cancel()
        told()

    for number in numbers:
        asyncio.get_running_loop().add_signal_handler(number, cancel)
    return await task
