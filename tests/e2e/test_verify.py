"""``specwatch verify`` on a real vLLM: what its build for CPUs does with speculation, and without."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specwatch.lab import stage
from specwatch.lab.child import free_port
from specwatch.lab.models import LabModels
from tests.support.lab import START_SECONDS, LabServer, answers, specwatch
from tests.support.processes import running
from tests.support.programs import finish

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

TEMPERATURES = ("0", "0.3", "1")


async def verify(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    chosen = [word for temperature in TEMPERATURES for word in ("--temperature", temperature)]
    return await asyncio.to_thread(finish, specwatch("verify", url, "--json", *chosen, *options))


def verdicts(done: subprocess.CompletedProcess[str]) -> dict[float, Any]:
    """By temperature."""
    return {entry["temperature"]: entry for entry in json.loads(done.stdout)["temperatures"]}


@pytest.fixture(scope="module")
def plain_server(lab_models: LabModels, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM with the lab's target alone, listing its whole vocabulary; gives its URL."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(lab_models.target)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", stage.SERVED_NAME),
        *("--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager", "--max-logprobs", "300"),
    ]
    url = f"http://127.0.0.1:{port}"
    log: Path = tmp_path_factory.mktemp("plain") / "vllm.log"
    with running(command, log, stage.CPU_ENVIRONMENT) as program:
        program.until("it is healthy", lambda: answers(f"{url}/health"), START_SECONDS)
        yield url


async def test_without_speculation_every_temperature_is_sound(plain_server: str):
    done = await verify(plain_server)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["listed_logprobs"], told["whole_vocabulary"]) == (259, True)
    for entry in verdicts(done).values():
        assert (entry["verdict"], entry["speculates"], entry["tokens"] >= 1000) == ("sound", False, True)


async def test_with_speculation_the_release_for_cpus_is_sound_at_0_and_distorted_above(lab_server: LabServer):
    done = await verify(lab_server.url)
    assert done.returncode == 1, done.stdout + done.stderr
    assert json.loads(done.stdout)["release"] == "0.32.0"
    greedy, cool, own = verdicts(done).values()
    assert (greedy["verdict"], greedy["off_tokens"]) == ("sound", 0)
    assert greedy["accepted_tokens"] > 100
    for entry in (cool, own):
        assert entry["verdict"] == "distorted"
        surprise = entry["checks"]["surprise"]
        assert surprise["observed"] > surprise["expected"] + 1


async def test_what_a_server_cannot_do_is_said_in_its_own_words(plain_server: str):
    done = await verify(plain_server, "--model", "other")
    assert done.returncode == 2
    assert done.stderr == f"specwatch: {plain_server} serves no model 'other': it has {stage.SERVED_NAME}\n"
