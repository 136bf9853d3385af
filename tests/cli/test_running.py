"""Ctrl-C and other signals end what a command does in order."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from specwatch.cli.running import ENDING, cancelled_by, run


async def interrupted(heard: list[str], number: int = signal.SIGINT) -> None:
    """Send itself a signal, and wait."""
    os.kill(os.getpid(), number)
    try:
        await asyncio.sleep(60)
    finally:
        heard.append("ended in order")


def test_what_was_worked_out_is_returned():
    async def work() -> int:
        return 7

    assert run(work()) == 7


async def test_beside_the_main_thread_it_runs_as_well():
    async def work() -> int:
        return 7

    assert await asyncio.to_thread(run, work()) == 7


def test_ctrl_c_ends_the_work_and_is_raised_where_it_was_begun():
    heard: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run(interrupted(heard))
    assert heard == ["ended in order"]


def test_an_error_is_the_works_own():
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        run(work())


@pytest.mark.parametrize("number", ENDING)
def test_signals_that_ask_to_end_are_told_of_and_cancel(number: signal.Signals):
    heard: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_by(ENDING, interrupted(heard, number), lambda: heard.append("told")))
    assert heard == ["told", "ended in order"]
