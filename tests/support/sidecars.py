"""A sidecar in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

SIDECAR = [sys.executable, "-m", "specwatch", "sidecar"]

AWAY = ("--target", "http://127.0.0.1:1", "--listen", "127.0.0.1:0")
"""Options that need no server."""


@dataclass
class Running:
    """A sidecar, where it serves, and what it has said so far."""

    process: asyncio.subprocess.Process
    url: str
    said: str

    @property
    def lines(self) -> list[str]:
        """What it has said, but for the notices that a busy machine kept it waiting."""
        return [line for line in self.said.splitlines() if "stood still for" not in line]

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{self.url}{path}") as answer:
            return answer.status, await answer.text()

    async def signals(self) -> list[dict[str, Any]]:
        """The targets, once each has been scraped."""
        async with aiohttp.ClientSession() as session:
            for _ in range(500):
                async with session.get(f"{self.url}/api/v1/signals") as answer:
                    targets: list[dict[str, Any]] = (await answer.json())["targets"]
                if all(target["up"] is not None for target in targets):
                    return targets
                await asyncio.sleep(0.02)
        raise AssertionError("not scraped")

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, and the exit code; ``said`` is then all that it has said."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        self.said += (await self.process.stderr.read()).decode()
        return await self.process.wait()


@asynccontextmanager
async def sidecar(*words: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """A sidecar in a process of its own, once it serves."""
    process = await asyncio.create_subprocess_exec(
        *SIDECAR,
        *words,
        env={**os.environ, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        said = ""
        while not (found := re.search(r"serving (https?://\S+)/:", said)):
            line = (await process.stderr.readline()).decode()
            assert line, f"it ended:\n{said}"
            said += line
        yield Running(process, found[1].replace("0.0.0.0", "127.0.0.1"), said)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
