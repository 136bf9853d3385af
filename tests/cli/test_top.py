"""``specwatch top`` and ``status`` in a real terminal."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from click.testing import CliRunner

from specwatch.cli import top
from specwatch.errors import InputError
from specwatch.lab.child import free_port
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import Domain
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from tests.support.terminal import PROMPT, SPECWATCH, terminal
from tools.rehearsal import Rehearsal, offstage, serving

HOPELESS = Domain("hopeless", acceptance=0.08)

COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|4[0-7]|38|48)[;m]")


@pytest_asyncio.fixture
async def watched() -> AsyncIterator[Rehearsal]:
    """A server that pays and one that costs, seen for five minutes; the sidecar's time runs on."""
    fleet = [SimulatedServer("fine", running=2), SimulatedServer("poor", running=2, traffic=HOPELESS)]
    async with offstage(fleet) as rehearsal:
        await rehearsal.play(300, 30)
        rehearsal.clock.release()
        yield rehearsal


@pytest.mark.slow
async def test_it_sorts_opens_goes_back_and_leaves_a_clean_screen(watched, tmp_path):
    async with serving(watched.app) as url, terminal(tmp_path) as shown:
        await shown.run(f"stty -g > {tmp_path}/before; {SPECWATCH} top {url}; echo ended with $?")
        screen = await shown.shows("2 servers: 1 pays, 1 costs: poor.", "▸ poor", "q quit", "● live")
        assert all(len(line) <= 80 for line in screen.splitlines())
        await shown.press("n")
        await shown.until(lambda screen: "by name" in screen and "▸ fine" in screen)
        await shown.press("Enter")
        await shown.shows("fine  ● pays", "Speedup ≤", "estimated, over 5m", "esc back")
        await shown.press("Escape")
        await shown.shows("▸ fine")
        await shown.press("/", "q")
        await shown.shows("filter: q", "0 servers with “q”")
        await shown.press("Escape", "q")
        await shown.shows("ended with 0")
        await shown.run(f"stty -g | cmp - {tmp_path}/before && echo as before")
        await shown.shows("as before\n")
        assert "SERVER" not in await shown.history()


@pytest.mark.slow
async def test_it_follows_the_windows_size_and_ctrl_c_ends_with_130(watched, tmp_path):
    async with serving(watched.app) as url, terminal(tmp_path) as shown:
        await shown.run(f"stty -g > {tmp_path}/before; COLUMNS=80 {SPECWATCH} top {url}")
        assert "MODEL" not in await shown.shows("▸ poor")
        for width, height in ((200, 50), (60, 10), (30, 5), (200, 24)):
            await shown.resize(width, height)
            await shown.until(lambda screen, width=width: width < 200 or "MODEL" in screen)
            assert "SERVER" in await shown.shows("specwatch top")
        await shown.press("C-z")
        await shown.shows("Stopped")
        await shown.run("fg")
        await shown.shows("▸ poor")
        await shown.press("C-c")
        await shown.until(lambda screen: screen.rstrip().endswith(PROMPT.strip()))
        await shown.run(f"echo ended with $?; stty -g | cmp - {tmp_path}/before && echo as before")
        await shown.shows("ended with 130\nas before\n")


@pytest.mark.slow
async def test_it_says_how_old_its_figures_are_when_the_sidecar_is_gone_and_goes_on_when_it_is_back(watched, tmp_path):
    async with AsyncExitStack() as open_first, terminal(tmp_path) as shown:
        url = await open_first.enter_async_context(serving(watched.app, port=free_port()))
        await shown.run(f"{SPECWATCH} top {url} --interval 0.5; echo ended with $?")
        await shown.shows("● live", "▸ poor")
        await open_first.aclose()
        await shown.shows("✗ disconnected", "Disconnected: no sidecar answers there", "▸ poor")
        async with serving(create_app(watched.service, AlertBook()), port=urlsplit(url).port or 0):
            await shown.until(lambda screen: "● live" in screen and "Disconnected" not in screen)
            await shown.press("q")
            await shown.shows("ended with 0")


@pytest.mark.slow
async def test_colour_and_codes_come_only_where_they_are_wanted(watched, tmp_path):
    async with serving(watched.app) as url, terminal(tmp_path, 200, 40) as shown:
        await shown.run(f"{SPECWATCH} status {url}")
        assert "MODEL" in await shown.shows("2 servers: 1 pays, 1 costs: poor.", "Speculation costs more than it gives")
        assert COLOUR.search(await shown.screen(styled=True))
        await shown.run(f"clear; {SPECWATCH} status {url} > {tmp_path}/piped; echo written $?")
        await shown.shows("written 1\n")
        assert "\x1b" not in (tmp_path / "piped").read_text()
        await shown.run(f"clear; NO_COLOR=1 {SPECWATCH} top {url}")
        await shown.shows("▸ poor")
        assert not COLOUR.search(await shown.screen(styled=True))
        await shown.press("q")


@pytest.mark.slow
async def test_without_a_sidecar_it_scrapes_from_here(tmp_path):
    async with Fleet([SimulatedServer("a", running=8)], speed=20) as fleet, terminal(tmp_path) as shown:
        await shown.run(f"{SPECWATCH} top --target gpu-1={fleet.urls[0]}; echo ended with $?")
        await shown.shows("scraped from here", "gpu-1 pays.", "no alerts: a sidecar judges them")
        await shown.press("q")
        await shown.shows("ended with 0")


@pytest.mark.slow
async def test_a_signal_and_a_defect_give_the_terminal_back(watched, tmp_path):
    broken = "import specwatch.cli.top_screen as screen; screen.table = None; from specwatch.cli import main; main()"
    python = SPECWATCH.split()[0]
    async with serving(watched.app) as url, terminal(tmp_path) as shown:
        await shown.run(f"stty -g > {tmp_path}/before; {SPECWATCH} top {url} & sleep 0; fg; echo ended with $?")
        await shown.shows("▸ poor")
        await shown.press("C-z")
        await shown.shows("Stopped")
        await shown.run("kill %1; fg; echo ended so: $?")
        await shown.shows("ended so: 143")
        await shown.run(f"{python} -c '{broken}' top {url}; stty -g | cmp - {tmp_path}/before && echo as before")
        await shown.shows("TypeError", "as before\n")


def test_what_is_no_terminal_is_refused_with_what_to_do():
    result = CliRunner().invoke(top.command, ["http://127.0.0.1:1"])
    assert isinstance(result.exception, InputError)
    assert "ssh -t" in str(result.exception)
    assert "specwatch status" in str(result.exception)
