"""``specwatch status`` against a real sidecar over simulated servers, and without one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from click.testing import CliRunner, Result
from rich.console import Console

from specwatch.cli import status
from specwatch.cli.status_source import Look
from specwatch.cli.status_table import servers
from specwatch.errors import InputError
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import Domain, Failure
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.views import TargetView
from tests.support.http import serving
from tests.support.sidecars import AWAY, sidecar
from tests.support.views import CHANGED, NOW, away, shown, silent
from tools.rehearsal import Rehearsal, rehearsing

PEMS = Path(__file__).parents[1] / "fixtures" / "tls"

HOPELESS = Domain("hopeless", acceptance=0.08)
"""Traffic on which even the assumed draft cost is more than speculation gives."""


@pytest_asyncio.fixture
async def watched() -> AsyncIterator[Rehearsal]:
    """A server that pays and one that costs, seen by a sidecar for five minutes."""
    fleet = [SimulatedServer("fine", running=2), SimulatedServer("poor", running=2, traffic=HOPELESS)]
    async with rehearsing(fleet) as rehearsal:
        await rehearsal.play(300, 30)
        yield rehearsal


async def asked(*words: str) -> Result:
    """The command, run to its end beside the servers of the test."""
    return await asyncio.to_thread(lambda: CliRunner().invoke(status.command, list(words)))


async def started(*words: str, **variables: str) -> asyncio.subprocess.Process:
    """The command in a process of its own, its output a pipe."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specwatch", "status", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
    )


def on_a_terminal(*views: TargetView, width: int = 80, **variables: str) -> str:
    """What people see, escape codes included."""
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, highlight=False, soft_wrap=True, _environ=variables
    )
    look = Look(NOW, views, ())
    status._show(console, servers(look), look)
    return console.file.getvalue()


async def test_a_pipe_gets_a_line_a_server_the_worst_first_and_nothing_else(watched):
    process = await started(watched.url)
    output, errors = await process.communicate()
    assert (process.returncode, errors) == (1, b"")
    head, *lines = output.decode().splitlines()
    assert head.startswith("SERVER")
    assert [line.split()[0] for line in lines] == ["poor", "fine"]
    assert all(line.isprintable() for line in (head, *lines))


async def test_figures_are_those_of_the_sidecar(watched):
    result = await asked(watched.url)
    fine = next(view for view in watched.service.views() if view.target.name == "fine").headline.values
    line = next(line for line in result.output.splitlines() if line.startswith("fine"))
    assert f" ≤ {fine['estimated_speedup']:.2f}× est. " in line
    assert f" {fine['acceptance_rate']:.1%} " in line
    assert f" {fine['running_requests']:.1f} " in line


async def test_json_is_all_there_is_and_says_how_every_server_stands(watched):
    result = await asked(watched.url, "--json")
    told = json.loads(result.output)
    assert result.exit_code == 1
    assert told["at"] == watched.clock.now()
    assert told["headline"] == "2 servers: 1 pays, 1 costs: poor."
    poor, fine = told["servers"]
    assert (poor["name"], poor["state"], poor["tone"], poor["window"]) == ("poor", "costs", "bad", "5m")
    assert (fine["name"], fine["state"], fine["tone"]) == ("fine", "pays", "good")
    assert fine["signals"]["acceptance_rate"] > 0.8
    assert fine["window_seconds"] == pytest.approx(270, abs=31)
    assert fine["drift"].keys() == {"score", "learned", "reference", "change", "since"}
    assert isinstance(fine["alerts"], list)


@pytest.mark.parametrize(
    ("views", "code"),
    [
        ([], 0),
        ([shown()], 0),
        ([shown(speedup=None)], 0),
        ([shown(drifted_since=NOW)], 4),
        ([shown(finding=CHANGED)], 4),
        ([silent()], 4),
        ([shown(), away("b"), shown("c", drifted_since=NOW)], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_server(views, code):
    assert status.exit_code(servers(Look(NOW, tuple(views), ()))) == code


def test_json_does_not_take_a_server_to_be_down_of_which_nobody_knows():
    (told,) = status._as_json(servers(look := Look(NOW, (silent(),), ())), look)["servers"]
    assert (told["state"], told["tone"], told["up"], told["error"]) == ("no-news", "warn", None, "HTTP 503")


def test_on_a_terminal_the_sentence_comes_first_and_what_is_wrong_below():
    poor = shown("gpu-3", speedup=0.8, finding=CHANGED)
    assert [line.rstrip() for line in on_a_terminal(shown(), poor, TERM="dumb").splitlines()] == [
        "2 servers: 1 pays, 1 costs: gpu-3.",
        "",
        "SERVER  STATE         SPEEDUP  ACCEPT  OVER  DRIFT  ALERTS  BATCH  TOKENS/S",
        "gpu-3   ▼ costs  ≤ 0.80× est.   81.2%    5m      –            4.0       250",
        "gpu-1   ● pays   ≤ 2.00× est.   81.2%    5m      –            4.0       250",
        "",
        "gpu-3",
        "  Traffic changed domain.",
        "  Retrain the draft.",
    ]


def test_of_many_that_are_wrong_a_few_are_told_and_the_rest_counted():
    output = on_a_terminal(*(away(f"gpu-{n}") for n in range(40)))
    assert output.count("The last scrape failed") == status.MOST_REMARKS
    assert "and 30 more: --json tells all" in output


def test_colour_is_left_out_where_nobody_wants_it():
    red = re.compile(r"\x1b\[(\d;)*31m")
    assert red.search(on_a_terminal(away(), TERM="xterm"))
    assert not red.search(on_a_terminal(away(), TERM="xterm", NO_COLOR="1"))


async def test_without_a_sidecar_servers_are_scraped_from_here():
    fleet = [SimulatedServer("a", running=8), SimulatedServer("b", running=8)]
    fleet[1].failure = Failure.SERVER_ERROR
    async with Fleet(fleet, speed=20) as served:
        a, b = served.urls
        result = await asked("--target", f"a={a}", "--target", f"b={b}", "--for", "4s")
    assert result.exit_code == 1, result.output
    lines = result.output.splitlines()
    (fine,) = [line for line in lines if line.startswith("a ")]
    assert any(line.startswith("b ") and "HTTP 500" in line for line in lines)
    assert fine.split()[:3] == ["a", "●", "pays"]
    assert re.search(r"% +\d+s ", fine)


@pytest.mark.parametrize("words", [("http://127.0.0.1:1", "--target", "h"), ("--token-file", "f", "--target", "h")])
def test_a_sidecar_and_targets_at_once_are_refused(words):
    result = CliRunner().invoke(status.command, words)
    assert isinstance(result.exception, InputError)
    assert "not both at once" in str(result.exception)


@pytest.mark.parametrize("words", [(), ("http://127.0.0.1:1",), ("--json",)])
def test_how_long_to_scrape_is_refused_where_nothing_is_scraped(words):
    result = CliRunner().invoke(status.command, ["--for", "30s", *words])
    assert isinstance(result.exception, InputError)
    assert "--for: that is how long the servers of --target are scraped" in str(result.exception)


async def test_nobody_there_is_one_message_and_exit_code_3():
    process = await started("http://127.0.0.1:1", "--json")
    output, errors = await process.communicate()
    assert (process.returncode, output) == (3, b"")
    assert errors.decode().startswith("specwatch: http://127.0.0.1:1: no sidecar answers there (connection refused)")
    assert errors.count(b"\n") == 1


async def test_ctrl_c_ends_with_130_and_without_a_word():
    asked_for = asyncio.Event()

    async def silent(_: web.Request) -> web.StreamResponse:
        asked_for.set()
        # An event that nobody else knows would leave this task to the garbage collector.
        await asyncio.sleep(3600)
        raise AssertionError

    async with serving({"/api/v1/signals": silent}) as url:
        process = await started(url)
        await asked_for.wait()
        process.send_signal(signal.SIGINT)
        assert await process.communicate() == (b"", b"")
    assert process.returncode == 130


@pytest.mark.slow
async def test_a_sidecar_with_tls_and_tokens_is_read_by_who_trusts_and_may(tmp_path):
    token = tmp_path / "token"
    token.write_text("reader-0123456789abcdef\n")
    token.chmod(0o600)
    pair = ("--tls-cert-file", str(PEMS / "server.pem"), "--tls-key-file", str(PEMS / "server.key"))
    trusting = ("--cacert", str(PEMS / "authority.pem"))
    async with sidecar(*AWAY, *pair, "--read-token-file", str(token)) as it:
        runs = (
            await started(it.url, "--token-file", str(token)),
            await started(it.url, *trusting),
            await started(it.url, "--token-file", str(token), "--json", *trusting),
        )
        strange, nameless, told = [await run.communicate() for run in runs]
    assert [run.returncode for run in runs[:2]] == [3, 3]
    assert b"its certificate is not trusted" in strange[1]
    assert b"--cacert" in strange[1]
    assert b"the sidecar asks for a token (HTTP 401); name the file that holds one with --token-file" in nameless[1]
    assert [server["name"] for server in json.loads(told[0])["servers"]] == ["127.0.0.1:1"]
