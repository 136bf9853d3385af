"""Measuring what speculation is worth: the same prompts on servers with and without it, block by block."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

import aiohttp

from specwatch.measure.calibration.blocks import Block, Design
from specwatch.measure.calibration.load import asking_session
from specwatch.measure.calibration.partial import Partial
from specwatch.measure.calibration.runs import Run, measure, warm_up
from specwatch.measure.calibration.servers import Identity, identify, refuse_different, refuse_role, sample_of

Progress = Callable[[Block, Run | None], None]
"""Hears of a block when it begins, and again with its run when it has ended."""


class Servers(Protocol):
    """Where the servers are."""

    async def url(self, k: int) -> str:
        """The root of the running server with that K, 0 for the one without speculation; starts it where needed."""


class Fixed:
    """Servers that run already."""

    def __init__(self, urls: Mapping[int, str]) -> None:
        self._urls = urls

    async def url(self, k: int) -> str:
        """The URL that was given."""
        return self._urls[k]


class Calibrator:
    """Measures the blocks of a design that are not in ``partial`` yet, and keeps them there."""

    def __init__(
        self, design: Design, servers: Servers, partial: Partial, progress: Progress, key: str | None = None
    ) -> None:
        self._design = design
        self._servers = servers
        self._partial = partial
        self._progress = progress
        self._key = key
        self.identities: dict[int, Identity] = {}
        """What each server is, by K, once it was met."""
        self._warm: dict[int, str] = {}

    async def run(self) -> dict[Block, Run]:
        """Measure; InputError, with everything before it kept, where that would measure something else."""
        salt = secrets.token_hex(8)
        async with asking_session(self._key) as session:
            if not self._design.in_turn:
                for k in (0, *self._design.ks):
                    await self._meet(session, k)
            for block in self._design.blocks():
                if block in self._partial.runs:
                    continue
                identity = await self._meet(session, block.k)
                self._progress(block, None)
                run = await measure(session, self._design, block, identity, salt)
                self._partial.keep(run)
                self._progress(block, run)
        return self._partial.runs

    async def _meet(self, session: aiohttp.ClientSession, k: int) -> Identity:
        """The server with that K: checked and warm."""
        url = await self._servers.url(k)
        if self._warm.get(k) == url:
            return self.identities[k]
        sample = sample_of([domain.prompts[0] for domain in self._design.domains])
        found = await identify(session, url, sample)
        refuse_role(found, k)
        for other in self.identities.values():
            refuse_different(other, found)
        self.identities[k] = found
        await warm_up(session, self._design, found)
        self._warm[k] = url
        return found
