"""A program that serves HTTP, running for the length of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import aiohttp

from specwatch.lab.child import free_port

READY_SECONDS = 60.0
"""Longest that a program may take to start; Prometheus needs about one on an idle machine."""

STOP_SECONDS = 30.0
"""Longest that a program may take to end before it is killed."""

POLL_SECONDS = 0.2
"""How often a test asks whether something has come true."""

STARTS = 3
"""Attempts to start: a port that was free may be taken by another test before the program listens on it."""

Command = Callable[[int], Sequence[str | Path]]
"""The command that serves on a port."""


@contextlib.asynccontextmanager
async def daemon(command: Command, log: Path, ready: str = "/-/ready") -> AsyncIterator[str]:
    """Run it on a free port of the loopback, its output in ``log``; gives its URL once ``ready`` answers 200."""
    process, url = await _started(command, log, ready)
    try:
        yield url
    finally:
        await _end(process)


async def _started(command: Command, log: Path, ready: str) -> tuple[asyncio.subprocess.Process, str]:
    for _ in range(STARTS):
        port = free_port()
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *command(port), stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
            )
        url = f"http://127.0.0.1:{port}"
        answers = False
        try:
            answers = await _is_ready(process, f"{url}{ready}")
        finally:
            if not answers:
                await _end(process)
        if answers:
            return process, url
    raise AssertionError(f"{command(0)[0]} did not start:\n{log.read_text(errors='replace')[-2000:]}")


async def _is_ready(process: asyncio.subprocess.Process, url: str) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.0)) as session:
        while loop.time() < deadline and process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return True
            await asyncio.sleep(POLL_SECONDS)
    return False


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
