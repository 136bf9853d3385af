"""``specwatch calibrate`` from the outside: servers that stand in for vLLM, a result in files, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from specwatch.cli import specwatch
from specwatch.cli.calibrate_launch import read_plan, server_plan
from specwatch.errors import InputError
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.vllm import calibration
from specwatch.vllm.plan import LaunchPlan
from tests.support.calibrated import Standing, served
from tests.support.programs import ROOT

SMALL = ("--max-concurrency", "2", "--requests", "4", "--max-tokens", "64", "--repetitions", "2")
KNOWN = ("--method", "draft_model", "--draft", "D", "--gpu", "H100")


@dataclass(frozen=True)
class Ended:
    """What a command printed and ended with."""

    code: int
    out: str
    err: str


@asynccontextmanager
async def calibrating(
    folder: Path, servers: Sequence[Standing], *words: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command, started against these servers; the first is the baseline."""
    prompts = folder / "home.jsonl"
    prompts.write_text('{"prompt": "home a"}\n{"prompt": "home b"}\n')
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(server)) for server in servers]
        command = [sys.executable, "-m", "specwatch", "calibrate", "--baseline", urls[0]]
        command += [word for url in urls[1:] for word in ("--speculative", url)]
        command += [*SMALL, "--domain", f"home={prompts}", "--output", str(folder / "c.json"), *words]
        pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        yield await asyncio.create_subprocess_exec(*command, **pipes)


async def ended(process: asyncio.subprocess.Process) -> Ended:
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def calibrated(folder: Path, servers: Sequence[Standing], *words: str) -> Ended:
    async with calibrating(folder, servers, *words) as process:
        return await ended(process)


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "c.json").read_text())
    return content


async def test_two_k_against_a_baseline_become_a_calibration_a_report_and_a_table(tmp_path):
    found = await calibrated(tmp_path, [Standing(), Standing(k=3), Standing(k=5)], *KNOWN)
    assert (found.code, found.err) == (0, "")
    assert "Speedup by domain, K and concurrency" in found.out
    assert "Recommended for this traffic: " in found.out
    read = calibration.read(tmp_path / "c.json")
    assert (read.target, read.method, read.draft, read.gpu, read.measured) == ("T", "draft_model", "D", "H100", (3, 5))
    assert len(result(tmp_path)["cells"]) == 2 * 2
    # What a step of the stand-in costs: 1 + K/4 plain ones.
    curve = CostCurve.of(map(CostPoint.read, read.costs))
    assert [curve.ratio(k, 1.0) for k in (3, 5)] == pytest.approx([1.75, 2.25], rel=1e-3)
    assert "<svg" in (tmp_path / "c.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.html", "c.json", "home.jsonl"]


async def test_the_report_needs_nothing_beside_it_and_takes_no_name_for_markup(tmp_path):
    model = "<script>alert(1)</script>"
    await calibrated(tmp_path, [Standing(model=model), Standing(k=3, model=model)], "--draft", '"><b onclick=x>')
    page = (tmp_path / "c.html").read_text()
    assert "<script" not in page
    assert "<b onclick" not in page
    assert not re.search(r"(?:src|href)=|url\(|@import", page)


async def test_every_key_that_is_written_is_documented(tmp_path):
    await calibrated(tmp_path, [Standing(), Standing(k=3, twist="!")], *KNOWN)
    documented = set(re.findall(r"`([a-z_.0-9]+)`", (ROOT / "docs" / "calibration-format.md").read_text()))
    documented = {part for name in documented for part in name.split(".")}
    content = result(tmp_path)
    lists = ("cells", "pooled", "costs", "step_costs", "crossovers")
    written = {*content, *content["recommended"], *(key for name in lists for entry in content[name] for key in entry)}
    assert written <= documented


async def test_an_interrupted_command_goes_on_where_it_was(tmp_path):
    servers = [Standing(), Standing(k=3)]
    async with calibrating(tmp_path, servers) as process:
        partial = tmp_path / "c.json.partial"
        while not partial.exists() or len(partial.read_text().splitlines()) < 3:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        stopped = await ended(process)
    assert stopped.code == 130
    kept = re.search(r"interrupted\. (\d) of 8 blocks are kept in \S+c\.json\.partial; the same command", stopped.err)
    assert kept, stopped.err
    assert not (tmp_path / "c.json").exists()
    servers = [Standing(), Standing(k=3)]
    assert (await calibrated(tmp_path, servers)).code == 0
    measured = sum(body["max_tokens"] == 64 for server in servers for body in server.asked)
    assert measured == 4 * (8 - int(kept[1]))


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        ([Standing(k=3), Standing(k=5)], "the baseline speculates after all, with K 3 by its page"),
        ([Standing(), Standing()], "it does not speculate"),
        ([Standing(), Standing(k=3, model="U")], "have model T and U"),
        ([Standing(), Standing(k=3), Standing(k=3)], "draft the same number of tokens"),
        ([Standing(), Standing(k=3, foreign_tokens=5)], "other traffic during the run"),
        ([Standing(), Standing(k=3, fail_after=9)], "out of luck"),
    ],
)
async def test_servers_that_cannot_be_used_end_it_with_2_and_keep_what_there_is(tmp_path, servers, problem):
    found = await calibrated(tmp_path, servers)
    assert found.code == 2
    assert problem in found.err
    assert "Traceback" not in found.err
    assert found.out == ""
    assert not (tmp_path / "c.json").exists()
    if "kept" in found.err:
        assert (tmp_path / "c.json.partial").exists()


async def test_too_few_tokens_end_it_with_2_and_without_advice(tmp_path):
    found = await calibrated(tmp_path, [Standing(shortened=20), Standing(k=3, shortened=20)])
    assert found.code == 2
    assert "too few tokens to conclude anything: home at concurrency 1 has 160 with and 160 without" in found.err
    assert "recommended" not in result(tmp_path)


def refusal(*words: str) -> str:
    found = CliRunner().invoke(specwatch, ["calibrate", *words])
    assert isinstance(found.exception, InputError), found.output
    return str(found.exception)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name the servers: --baseline URL and --speculative URL, or --launch PLAN"),
        (("--baseline", "http://a"), "name the servers"),
        (("--launch", "p.yaml", "--baseline", "http://a"), "name the servers"),
        (("--baseline", "http://a", "--speculative", "http://b", "--k", "3"), "--k: servers that run have their K"),
        (("--launch", "p.yaml", "--output", "/nowhere/c.json"), "no folder /nowhere"),
        (("--launch", "p.yaml", "--output", "c.html"), "--output c.html: the report goes there"),
        (("--launch", "p.yaml", "--share", "x=1"), "--share x=1: NAME=N is needed, NAME one of code, json, prose-es"),
        (("--launch", "p.yaml", "--share", "json=-1"), "N a number from 0 on"),
        (("--launch", "p.yaml", "--share", "json=nan"), "N a number from 0 on"),
        (("--launch", "p.yaml", "--domain", "json", "--share", "json=0"), "all domains have weight 0"),
        (("--launch", "/nowhere/p.yaml"), "/nowhere/p.yaml: no such file or directory"),
        (("--baseline", "http://127.0.0.1:9", "--speculative", "http://127.0.0.1:9"), "no connection"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(words, problem):
    assert problem in refusal(*words)


def plan(**entries: Any) -> LaunchPlan:
    return LaunchPlan.model_validate({"target": "T", "draft": "D", "method": "draft_model"} | entries)


def test_the_servers_of_a_plan_differ_by_speculation_alone():
    given = plan(
        num_speculative_tokens=7,
        max_spec_concurrency=32,
        draft_max_model_len=1024,
        restart="on-failure",
        api_key_file="key",
        vllm={"port": 8000, "host": "0.0.0.0", "max-num-seqs": 64},
    )
    served = {"max-num-seqs": 64, "host": "127.0.0.1", "port": 4711}
    common = {"target": "T", "vllm": served, "sidecar": False}
    assert yaml.safe_load(server_plan(given, 0, 4711)) == common
    drafting = {"draft": "D", "method": "draft_model", "draft_max_model_len": 1024, "num_speculative_tokens": 3}
    assert yaml.safe_load(server_plan(given, 3, 4711)) == common | drafting


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("draft: D\n", "it names no target"),
        ("target: T\nnum_speculative_tokens: 5\n", "it asks for no speculation; name a draft or a method"),
        ("target: T\ndrafft: D\n", "unknown; did you mean draft?"),
    ],
)
def test_a_plan_that_cannot_be_calibrated_is_refused(tmp_path, content, problem):
    (tmp_path / "plan.yaml").write_text(content)
    with pytest.raises(InputError) as caught:
        read_plan(tmp_path / "plan.yaml")
    assert problem in str(caught.value)


def test_a_plan_without_k_asks_for_one(tmp_path):
    (tmp_path / "plan.yaml").write_text("target: T\ndraft: D\n")
    assert "it names no num_speculative_tokens: add --k K" in refusal("--launch", str(tmp_path / "plan.yaml"))
