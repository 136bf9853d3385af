"""Waiting with an end to it."""

from __future__ import annotations

import asyncio

import pytest

from specwatch.waiting import within


async def late(seconds: float = 0.0) -> str:
    await asyncio.sleep(seconds)
    return "done"


async def test_what_is_done_in_time_is_returned():
    assert await within(60, late()) == "done"


async def test_what_is_not_done_in_time_is_cancelled():
    ended = asyncio.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.sleep(86_400)
        finally:
            ended.set()

    with pytest.raises(asyncio.TimeoutError):
        await within(0.01, wait_for_ever())
    await asyncio.wait_for(ended.wait(), 20)


async def test_what_fails_says_so():
    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await within(60, fail())


async def test_who_is_cancelled_at_the_moment_at_which_the_work_is_done_ends():
    done = asyncio.get_running_loop().create_future()

    async def work() -> str:
        return await done

    waiting = asyncio.create_task(within(60, work()))
    await asyncio.sleep(0.01)
    done.set_result("done")
    # The work's own task runs, and is done; whoever waits for it has not run again yet.
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
