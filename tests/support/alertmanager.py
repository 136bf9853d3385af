"""A real Alertmanager for the length of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.daemon import daemon
from tests.support.services import alertmanager_binary


@asynccontextmanager
async def alertmanager(folder: Path, config_file: Path, flags: Sequence[str] = ()) -> AsyncIterator[str]:
    """Alertmanager with this configuration, its data and log under ``folder``; gives its URL."""

    def command(port: int) -> Sequence[str | Path]:
        return [
            alertmanager_binary(),
            f"--config.file={config_file}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
            "--cluster.listen-address=",  # without it, gossip opens a port on every interface
        ]

    async with daemon(command, folder / "alertmanager.log") as url:
        yield url
