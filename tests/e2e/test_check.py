"""``specwatch check`` on a real vLLM: what it says of good traffic, of foreign traffic, and of none."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.http import serving, text_page
from tests.support.lab import FOREIGN, HOME, LabServer, specwatch, traffic
from tests.support.pages import page_text
from tests.support.programs import finish

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

WINDOW = "20s"


async def check(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, while the traffic goes on."""
    return await asyncio.to_thread(finish, specwatch("check", url, "--for", WINDOW, *options))


async def test_an_idle_server_is_recognised_and_not_judged(lab_server: LabServer):
    done = await check(lab_server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vLLM 0.32.0 · dialect v1 · lab-target · K = 5" in done.stdout
    assert "No tokens were generated in this window" in done.stdout
    assert "acceptance rate" not in done.stdout


async def test_traffic_the_draft_was_made_for_is_healthy(lab_server: LabServer):
    async with traffic(lab_server.url, HOME):
        done = await check(lab_server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vLLM 0.32.0 · dialect v1 · lab-target · K = 5" in done.stdout
    assert "Speculation fits this traffic" in done.stdout
    assert done.stderr == ""


async def test_low_acceptance_on_foreign_traffic_is_told_and_is_no_problem_by_itself(lab_server: LabServer):
    async with traffic(lab_server.url, FOREIGN):
        for_people, for_scripts = await asyncio.gather(check(lab_server.url), check(lab_server.url, "--json"))
    assert for_people.returncode == ("✗" in for_people.stdout), for_people.stdout
    assert "below the 60% that many rules ask for" in " ".join(for_people.stdout.split())
    told = json.loads(for_scripts.stdout)
    assert (told["release"], told["dialect"], told["k"], told["model"]) == ("0.32.0", "v1", 5, "lab-target")
    assert told["signals"]["acceptance_rate"] < 0.6
    levels = {finding["code"]: finding["level"] for finding in told["findings"]}
    assert levels["acceptance-low"] != "problem"
    assert for_scripts.returncode == ("problem" in levels.values()), for_scripts.stdout


async def test_a_server_without_speculation_is_told_apart(tmp_path: Path):
    routes = {"/metrics": text_page(page_text("vllm-0.32.0-v1-off")), "/version": version}
    async with serving(routes) as url:
        done = await check(url)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "vLLM 0.32.0" in done.stdout
    assert "vLLM serves without speculation" in done.stdout


async def version(_: web.Request) -> web.Response:
    return web.json_response({"version": "0.32.0"})
