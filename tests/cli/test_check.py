"""``specwatch check`` against simulated servers and captured pages, over real sockets."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from rich.cells import cell_len
from rich.console import Console

from specwatch.cli import check, check_report
from specwatch.collect.scraper import Limits, ScrapeError
from specwatch.collect.targets import parse
from specwatch.lab.fleet import Fleet
from specwatch.lab.scenario import Failure
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals.catalogue import signals
from tests.support.http import Handler, answering, serving, text_page
from tests.support.pages import page_text

BEFORE, JSON, SPANISH = (page_text(f"vllm-0.32.0-v1-draft_model-{name}") for name in ("before", "json", "es"))
V0 = page_text("vllm-0.8.5.post2-v0-draft_model-json3")


async def checked(url: str, *words: str) -> Result:
    """The command, run to its end beside the servers of the test."""
    arguments = [url, "--for", "1s", *words]
    return await asyncio.to_thread(lambda: CliRunner().invoke(check.command, arguments))


async def judged(url: str, *, k: int | None = None) -> tuple[int, str]:
    """Exit code and report of a check over two scrapes: what the command does, in half of its shortest time."""
    settings = WatchSettings(k=k, windows=(0.5 + check.SLOWEST,), headline=0.5 + check.SLOWEST)
    view = await check._follow(parse(url), settings, 0.5, None)
    console = Console(file=io.StringIO(), width=80)
    console.print(check_report.report(view))
    return check._exit_code(view), console.file.getvalue()


def said(result: Result) -> str:
    """The output on one line."""
    return one_line(result.output)


def one_line(text: str) -> str:
    return " ".join(text.split())


def in_turn(*pages: str) -> Handler:
    """Serves a page after the other, and the last one for ever."""
    left = list(pages)

    async def handler(request: web.Request) -> web.StreamResponse:
        return await text_page(left.pop(0) if len(left) > 1 else left[0])(request)

    return handler


def counting(page: str, **counters: float) -> str:
    """The page with other values of some counters, named without ``vllm:`` and ``_total``."""
    for name, value in counters.items():
        page, found = re.subn(rf"(?m)^(vllm:{name}(?:_total)?{{.*}}) .*$", rf"\1 {value}", page)
        assert found
    return page


ZEROES = dict.fromkeys(
    ["spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens"], 1000.0
) | {"generation_tokens": 5000.0, "inter_token_latency_seconds_count": 1000.0}
"""Counters that the crafted pages begin with."""


def crafted(**increments: float) -> tuple[str, str]:
    """A page, and a second one on which these counters have grown."""
    grown = {name: ZEROES[name] + by for name, by in increments.items()}
    return counting(JSON, **ZEROES), counting(JSON, **ZEROES | grown)


def without(page: str, *families: str) -> str:
    kept = [line for line in page.splitlines(keepends=True) if not any(f"vllm:{family}" in line for family in families)]
    return "".join(kept)


FEW = crafted(spec_decode_num_drafts=5, spec_decode_num_draft_tokens=25, generation_tokens=20)
PARTLY = crafted(
    spec_decode_num_drafts=400,
    spec_decode_num_draft_tokens=2000,
    spec_decode_num_accepted_tokens=1800,
    generation_tokens=2800,
    inter_token_latency_seconds_count=1000,
)
HARDLY = crafted(
    spec_decode_num_drafts=4,
    spec_decode_num_draft_tokens=20,
    generation_tokens=1000,
    inter_token_latency_seconds_count=1000,
)
DIFFUSION = without(JSON, "spec_decode") + 'vllm:diffusion_num_denoising_steps_total{engine="0"} 7.0\n'
MINIMAL = [without(page, "spec_decode_num_drafts", "spec_decode_num_accepted_tokens_per") for page in (BEFORE, JSON)]
V0_NEW = page_text("vllm-0.8.5.post2-v0-draft_model-before")
OFF = page_text("vllm-0.32.0-v1-off")


@pytest.mark.parametrize(
    ("pages", "code", "sentences"),
    [
        pytest.param((BEFORE, JSON), 0, ["✓ Speculation fits this traffic: an estimated"], id="healthy"),
        pytest.param(
            (JSON, SPANISH),
            1,
            [
                "✗ Speculation costs more than it gives: at most 0.86 times",
                "Lower K, change the draft",
                "✗ K is too long",
            ],
            id="a draft that does not fit",
        ),
        pytest.param((OFF,), 1, ["✗ vLLM serves without speculation"], id="no speculation"),
        pytest.param((V0_NEW,), 1, ["✗ vLLM exports no token statistics"], id="V0 before its first request"),
        pytest.param((JSON, JSON), 0, ["• No tokens were generated in this window"], id="no traffic"),
        pytest.param(FEW, 0, ["• Not enough traffic to say: too few drafts in this window"], id="too little traffic"),
        pytest.param(PARTLY, 0, ["✓ Speculation fits", "• Only 40% of decode steps are drafted"], id="partly drafted"),
        pytest.param(HARDLY, 1, ["✗ Speculation is off: it is configured and tokens flow"], id="not drafting"),
        pytest.param((JSON.replace("vllm:", "vllm_"),), 1, ["✗ An exporter on the way renamed vllm:…"], id="mangled"),
        pytest.param(("# TYPE up gauge\nup 1\n",), 1, ["✗ This is a metrics page, but not vLLM's"], id="not vLLM"),
        pytest.param((DIFFUSION,), 0, ["• A diffusion model: it denoises instead of drafting"], id="diffusion"),
        pytest.param(MINIMAL, 0, ["✓ Speculation fits", "• vLLM 0.8.3 and 0.8.4 count no drafts"], id="0.8.3"),
        pytest.param((V0, V0), 0, ["• The V0 engine", "they need K (--num-speculative-tokens)"], id="V0"),
    ],
)
async def test_a_page_is_explained_and_judged(pages, code, sentences):
    async with serving({"/metrics": in_turn(*pages)}) as url:
        ended, report = await judged(url)
    assert ended == code, report
    for sentence in sentences:
        assert sentence in one_line(report)
    assert report.count("✗") == len([sentence for sentence in sentences if sentence.startswith("✗")])


async def test_log_stats_off_is_told_from_another_server():
    async with Fleet([SimulatedServer("s", log_stats=False)]) as fleet:
        result = await checked(fleet.urls[0])
    assert result.exit_code == 1
    assert "vLLM 0.32.0 · dialect no-stats" in result.output
    assert "--disable-log-stats" in result.output


async def test_engines_behind_one_page_are_pooled_and_told_of():
    async with Fleet([SimulatedServer("s", engines=2, running=8)], speed=10) as fleet:
        result = await checked(fleet.urls[0])
    assert result.exit_code == 0, result.output
    assert "2 engines" in result.output
    assert "2 engines (data parallel) answer behind this page" in said(result)
    assert "✓ Speculation fits this traffic" in said(result)


async def test_the_v0_engine_tells_averages_since_its_start_once_k_is_given():
    async with serving({"/metrics": text_page(V0)}) as url:
        (code, without_k), (with_code, with_k) = await judged(url), await judged(url, k=5)
    assert "since start" not in without_k
    assert re.search(r"acceptance rate, since start +9[12]\.\d%  V0 average", with_k)
    assert re.search(r"acceptance length, since start +5\.[56]\d  V0 average", with_k)
    assert (code, with_code) == (0, 0)


async def test_a_draft_cost_that_is_given_decides_whether_speculation_pays():
    async with serving({"/metrics": in_turn(BEFORE, JSON)}) as url:
        result = await checked(url, "--draft-cost", "2")
    assert result.exit_code == 1
    assert "✗ Speculation costs more than it gives" in said(result)
    assert "(given: a draft token costs 200.0% of a target step)" in said(result)
    assert "--draft-cost sets it" not in result.output


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"vllm:generation_tokens_total 1\n" * 10_000)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure.TRUNCATED, "the page ends in the middle of a line: it was cut off on the way"),
        (Failure.CUT_OFF, "the connection ended in the middle of the page"),
        (Failure.SERVER_ERROR, "HTTP 500"),
        (Failure.DOWN, "the server closed the connection without an answer"),
        (Failure.HANG, "no complete answer within 2 s"),
    ],
)
async def test_a_server_without_a_page_ends_the_check_with_3(failure, reason, monkeypatch):
    if failure is Failure.HANG:
        monkeypatch.setattr(check, "PATIENT", Limits(seconds=2.0))
    server = SimulatedServer("s")
    server.failure = failure
    async with Fleet([server], speed=0) as fleet:
        result = await checked(fleet.urls[0])
    assert result.exit_code == 3
    assert re.search(f"✗ The last scrape failed: .*{reason}", said(result))


@pytest.mark.slow
async def test_a_page_that_takes_longer_than_a_scrape_among_many_may_is_waited_for():
    pages = in_turn(BEFORE, JSON)

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(Limits().seconds + 1)
        return await pages(request)

    async with serving({"/metrics": handler}) as url:
        result = await checked(url)
    assert result.exit_code == 0, result.output
    assert "✓ Speculation fits this traffic" in said(result)


async def test_no_one_at_the_address_is_said_so():
    result = await checked("http://127.0.0.1:1")
    assert result.exit_code == 3
    assert "✗ The last scrape failed: no connection: connection refused." in said(result)


async def test_a_page_without_end_is_not_read_to_its_end():
    async with serving({"/metrics": endless}) as url:
        result = await checked(url)
    assert result.exit_code == 3
    assert "the page is larger than 16 MiB" in said(result)


async def test_an_answer_without_sense_is_none():
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        result = await checked(url)
    assert result.exit_code == 3
    assert "✗ The last scrape failed" in said(result)


async def test_a_server_that_goes_away_on_the_way_ends_the_check_at_once():
    pages = [BEFORE, JSON]

    async def handler(request: web.Request) -> web.StreamResponse:
        return await text_page(pages.pop(0))(request) if pages else web.Response(status=503)

    async with serving({"/metrics": handler}) as url:
        result = await checked(url, "--for", "60m")
    assert result.exit_code == 3
    assert "HTTP 503" in said(result)


async def test_the_report_shows_the_window_and_never_the_servers_life():
    async with serving({"/metrics": in_turn(JSON, SPANISH)}) as url:
        text = (await checked(url)).output
        told = json.loads((await checked(url, "--json")).output)
    accepted, drafted = (
        float(re.search(rf"(?m)^vllm:spec_decode_num_{name}_tokens_total{{.*}} (.*)$", SPANISH)[1])
        for name in ("accepted", "draft")
    )
    assert f"{accepted / drafted:.1%}" == "16.3%"
    assert re.search(r"acceptance rate +1\.5%", text)
    assert "16.3%" not in text
    assert 1 <= float(re.search(r"over the last ([\d.]+) s", text)[1]) < check.SLOWEST
    # The second check saw one page again and again: nothing happened in its window.
    assert told["signals"]["acceptance_rate"] is None
    assert told["signals"]["generation_throughput"] == 0


async def test_json_is_all_there_is_on_the_output_and_holds_what_the_report_says():
    async with serving({"/metrics": in_turn(JSON, SPANISH), "/version": text_page('{"version": "0.32.0"}')}) as url:
        result = await checked(url, "--json")
    told = json.loads(result.output)
    assert result.exit_code == 1
    assert list(told) == [
        *("url", "up", "error", "release", "dialect", "model", "engines", "k", "window_seconds", "signals"),
        *("since_start", "draft_cost", "speedups", "findings"),
    ]
    assert (told["url"], told["up"], told["error"], told["release"]) == (f"{url}/metrics", True, None, "0.32.0")
    assert (told["dialect"], told["model"], told["engines"], told["k"]) == ("v1", "./lab_target", 1, 5)
    assert told["window_seconds"] >= 1
    assert told["signals"].keys() == {signal.name for signal in signals()}
    assert told["signals"]["acceptance_rate"] == pytest.approx(0.015, abs=1e-3)
    assert [(finding["code"], finding["level"]) for finding in told["findings"]] == [
        ("slower-than-none", "problem"),
        ("k-too-long", "problem"),
    ]


async def test_json_of_a_server_that_is_away_is_an_object_too():
    result = await checked("http://127.0.0.1:1", "--json")
    told = json.loads(result.output)
    assert result.exit_code == 3
    assert (told["up"], told["dialect"], told["error"]) == (False, None, "no connection: connection refused")
    assert told["signals"]["acceptance_rate"] is None


async def test_json_holds_no_infinity_whatever_the_page_says():
    infinite = counting(JSON, generation_tokens="+Inf", spec_decode_num_draft_tokens="1e308")
    async with serving({"/metrics": in_turn(JSON, infinite)}) as url:
        output = (await checked(url, "--json")).output

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(output, parse_constant=refuse)["up"] is True


async def test_output_into_a_pipe_holds_no_escape_codes():
    async with serving({"/metrics": in_turn(JSON, SPANISH)}) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "specwatch", "check", url, "--for", "1s"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()
    assert (process.returncode, errors) == (1, b"")
    text = output.decode()
    assert all(character == "\n" or character.isprintable() for character in text)
    assert "acceptance rate" in text


async def test_nothing_on_a_page_reaches_the_terminal_as_a_command():
    hostile = "\x1b[2J\x1b]0;owned\x07\u202e"
    pages = [page.replace("./lab_target", hostile) for page in (BEFORE, JSON)]
    version = text_page(json.dumps({"version": hostile}))
    async with serving({"/metrics": in_turn(*pages), "/version": version}) as url:
        result = await checked(url)
    assert "owned" in result.output
    assert all(character == "\n" or character.isprintable() for character in result.output)


async def test_figures_stand_after_two_scrapes():
    async with Fleet([SimulatedServer("s", running=16)], speed=10) as fleet:
        views = check._views(parse(fleet.urls[0]), WatchSettings(windows=(60.0,), headline=60.0), 60.0)
        first, second = await anext(views), await anext(views)
        await views.aclose()
    assert [finding.code for finding in first.findings] == ["one-scrape"]
    assert [finding.code for finding in second.findings] == ["healthy"]
    for name in ("acceptance_rate", "acceptance_length", "draft_coverage", "estimated_speedup"):
        assert second.headline.values[name] is not None


@pytest.mark.parametrize("width", [80, 120])
async def test_on_a_terminal_the_report_grows_in_place_and_fits(monkeypatch, width):
    output = io.StringIO()
    monkeypatch.setattr(
        check, "Console", lambda **options: Console(file=output, force_terminal=True, width=width, height=24, **options)
    )
    async with serving({"/metrics": in_turn(JSON, SPANISH)}) as url:
        result = await checked(url)
    written = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", output.getvalue())
    assert result.output == ""
    assert written.startswith(f"asking {url}/metrics …")
    assert "Nothing to judge yet" in written
    last = written.rpartition(url)[2]
    assert re.search(r"acceptance rate +1\.5%", last)
    assert len(last.splitlines()) < 24
    assert max(cell_len(line) for line in last.splitlines()) <= width


async def test_sentences_hang_below_their_signs():
    async with serving({"/metrics": in_turn(JSON, SPANISH)}) as url:
        lines = (await checked(url)).output.splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("✗ Speculation"))
    assert lines[at + 1].startswith("  ")
    assert len(lines[at]) <= 80


@pytest.mark.parametrize(
    "words", [("ftp://x",), ("http://x", "--for", "0s"), ("http://x", "--for", "2h"), ("http://x", "--for", "nan"), ()]
)
def test_what_cannot_be_asked_is_a_usage_error(words):
    result = CliRunner().invoke(check.command, list(words))
    assert result.exit_code == 2
    assert "Usage: check" in result.output


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("2m", 120), ("1.5", 1.5), ("60m", 3600)])
def test_a_duration_is_seconds_or_minutes(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch):
    durations: list[float] = []

    async def follow(target: Any, settings: WatchSettings, duration: float, screen: Any) -> Any:
        durations.append(duration)
        raise ScrapeError

    monkeypatch.setattr(check, "_follow", follow)
    CliRunner().invoke(check.command, ["http://x", "--for", text])
    assert durations == [seconds]


def test_an_interruption_is_no_judgement(monkeypatch: pytest.MonkeyPatch):
    async def follow(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(check, "_follow", follow)
    assert CliRunner().invoke(check.command, ["http://x"]).exit_code == 130
