from __future__ import annotations

import asyncio
import time

from specwatch.sidecar.pauses import STEP_SECONDS, Pauses


async def test_others_have_a_turn_after_every_step_and_none_between():
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    seen = turns
    pauses = Pauses()
    for _ in range(10):
        await pauses.after_a_step()
    assert turns == seen
    for _ in range(3):
        worked = time.thread_time() + STEP_SECONDS
        while time.thread_time() < worked:
            pass
        await pauses.after_a_step()
    assert turns == seen + 3
    task.cancel()
