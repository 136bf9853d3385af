from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from specwatch.cli.demo import command
from specwatch.errors import SpecwatchError

DEMO = [sys.executable, "-m", "specwatch", "demo", "--simulated"]


async def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("SPECWATCH_CACHE", str(tmp_path / "taken"))
    result = CliRunner().invoke(command, ["--simulated"])
    assert isinstance(result.exception, SpecwatchError)
    assert str(result.exception) == (
        f"{tmp_path / 'taken' / 'demo'}: not a directory. Name a folder to write into with SPECWATCH_CACHE."
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_demonstration_and_everything_it_started(tmp_path: Path, number: signal.Signals):
    process = await asyncio.create_subprocess_exec(
        *DEMO,
        env={**os.environ, "SPECWATCH_CACHE": str(tmp_path)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    printed = ""
    while "acceptance" not in printed:
        line = (await process.stdout.readline()).decode()
        assert line, printed
        printed += line
    addresses = re.findall(r"http://127\.0\.0\.1:\d+", printed)
    assert len(set(addresses)) == 4
    process.send_signal(number)
    rest = (await process.stdout.read()).decode()
    assert await process.wait() == 0
    assert rest.endswith("Stopping what was started. Ctrl-C again hurries it.\nStopped; nothing is left running.\n")
    assert "\x1b" not in printed + rest
    async with aiohttp.ClientSession() as session:
        for address in set(addresses):
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(address)
