"""A process of the lab: started in a session of its own, its output in a file, ended whatever happens."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from specwatch.errors import SpecwatchError
from specwatch.vllm.descendants import end_with_parent
from specwatch.waiting import within

STOP_SECONDS = 40.0
"""Longest a process may take to end before it is killed: a launcher waits 30 s for vLLM itself."""

HURRIED_SECONDS = 10.0
"""The same for somebody who asks twice: a launcher kills vLLM at the second SIGTERM, and ends within seconds."""

LOG_TAIL = 15
"""Lines of the log that are shown when a process ends too early."""

ASK_EVERY = 0.25
"""Seconds between two questions whether a server is ready."""


@dataclass(frozen=True)
class Child:
    """A running process and its log."""

    what: str
    process: asyncio.subprocess.Process
    log: Path

    def died(self) -> str | None:
        """Why it is gone, with the end of its log; None while it runs."""
        if self.process.returncode is None:
            return None
        tail = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        return "\n  ".join([f"{self.what} ended with code {self.process.returncode}; {self.log} ends with", *tail])

    async def until_healthy(self, url: str, seconds: float, waiting: Callable[[float], None]) -> None:
        """Wait until ``url`` answers 200; ``waiting`` hears the seconds waited. SpecwatchError when it never does."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        timeout = aiohttp.ClientTimeout(total=2.0)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while loop.time() - began < seconds:
                if (reason := self.died()) is not None:
                    raise SpecwatchError(reason)
                waiting(loop.time() - began)
                with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                    async with session.get(url) as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(ASK_EVERY)
        raise SpecwatchError(f"{self.what} did not answer at {url} within {seconds:g} s; its log is {self.log}")


@asynccontextmanager
async def running(
    what: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """Run a command; at the end SIGTERM, and SIGKILL to its whole session when it does not end in STOP_SECONDS.

    Being cancelled while it waits for that end sends SIGTERM once more, and waits HURRIED_SECONDS only.
    """
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            # A session of its own: Ctrl-C in the terminal reaches it through its parent, once and in order.
            start_new_session=True,
            # Should this process be killed, nobody else would end that one.
            preexec_fn=end_with_parent,
        )
    try:
        yield Child(what, process, log)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        await _terminate(process, STOP_SECONDS)
    except asyncio.CancelledError:
        await _terminate(process, HURRIED_SECONDS)
        raise
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _terminate(process: asyncio.subprocess.Process, seconds: float) -> None:
    """SIGTERM, and so many seconds for the process to end."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        with suppress(asyncio.TimeoutError):
            await within(seconds, process.wait())


NOT_HANDED_OUT = range(15_000, 32_000)
"""Ports below those that Linux gives to whoever asks for any (from 32768 on): one that is chosen here stays free while
vLLM takes its half minute to start, whatever else opens sockets meanwhile."""


def free_port(preferred: int = 0) -> int:
    """``preferred`` where nothing listens on loopback there, else one that is free and not given away by chance."""
    for port in (*([preferred] if preferred else []), *random.sample(NOT_HANDED_OUT, 100)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise SpecwatchError("no free port on 127.0.0.1")
