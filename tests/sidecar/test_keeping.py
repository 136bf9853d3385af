from __future__ import annotations

import asyncio

import pytest

from specwatch.sidecar.keeping import again


async def test_a_defect_ends_nothing_and_is_logged_when_it_begins(caplog):
    outcomes = ["bad", "bad", "good", "bad", "end"]

    async def work() -> None:
        outcome = outcomes.pop(0)
        if outcome == "end":
            raise asyncio.CancelledError
        if outcome == "bad":
            raise ZeroDivisionError

    with pytest.raises(asyncio.CancelledError):
        await again(work, 0.0)
    assert outcomes == []
    assert caplog.text.count("a defect of specwatch") == 2
