"""``specwatch verify`` on a real vLLM: its build for CPUs without speculation, with it, and with it mended."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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

TOKENS, RESOLUTION = "700", "0.15"
"""At the lab's variance of 0.15 a token such a text excludes a change of 0.08; a difference by chance has to have five
standard deviations to leave the verdict open."""

MENDED = '''
"""Mends vLLM 0.32 without Triton: there the temperatures of draft tokens are written to a copy, and stay unset."""
import importlib.abc
import importlib.util
import sys

NAME = "vllm.utils.cpu_triton_utils"


def expand(output, input_val, cu_num_tokens, replace_from, replace_to, MAX_NUM_TOKENS=None):
    counts = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    output.copy_(input_val.masked_fill(input_val == replace_from, replace_to).repeat_interleave(counts))


class Mend(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_and_mend(module):
            run(module)
            module._expand_kernel_impl = expand

        spec.loader.exec_module = run_and_mend
        return spec


sys.meta_path.insert(0, Mend())
'''
"""A sitecustomize.py, which every Python of the server runs first."""


@contextmanager
def vllm(models: LabModels, folder: Path, *options: str, **variables: str) -> Iterator[str]:
    """A vLLM with the lab's target, until the end; gives its URL."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(models.target)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", stage.SERVED_NAME),
        *("--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager", *options),
    ]
    with running(command, folder / "vllm.log", {**stage.CPU_ENVIRONMENT, **variables}) as program:
        program.until("it is healthy", lambda: answers(f"{url}/health"), START_SECONDS)
        yield url


async def verify(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    chosen = [word for temperature in TEMPERATURES for word in ("--temperature", temperature)]
    words = ("--json", "--tokens", TOKENS, "--resolution", RESOLUTION, *chosen, *options)
    return await asyncio.to_thread(finish, specwatch("verify", url, *words))


def verdicts(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What is told of each temperature."""
    told = json.loads(done.stdout)
    assert told["release"] == "0.32.0"
    return list(told["temperatures"])


async def test_without_speculation_every_temperature_is_sound(lab_models: LabModels, tmp_path: Path):
    with vllm(lab_models, tmp_path, "--max-logprobs", "300") as url:
        done = await verify(url)
        other = await verify(url, "--model", "other")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (json.loads(done.stdout)["listed_logprobs"], json.loads(done.stdout)["whole_vocabulary"]) == (259, True)
    for entry in verdicts(done):
        assert (entry["verdict"], entry["speculates"], entry["tokens"] >= int(TOKENS)) == ("sound", False, True)
    assert other.returncode == 2
    assert other.stderr == f"specwatch: {url} serves no model 'other': it has {stage.SERVED_NAME}\n"


async def test_with_speculation_the_release_for_cpus_is_sound_at_0_and_distorted_above(lab_server: LabServer):
    done = await verify(lab_server.url)
    assert done.returncode == 1, done.stdout + done.stderr
    greedy, cool, own = verdicts(done)
    assert (greedy["verdict"], greedy["off_tokens"]) == ("sound", 0)
    assert greedy["accepted_tokens"] > 100
    for entry in (cool, own):
        assert entry["verdict"] == "distorted"
        surprise = entry["checks"]["surprise"]
        assert surprise["observed"] > surprise["expected"] + 1


async def test_with_its_rejection_sampler_mended_it_is_sound_at_every_temperature(
    lab_models: LabModels, tmp_path: Path
):
    (tmp_path / "sitecustomize.py").write_text(MENDED)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    draft = {"method": "draft_model", "model": str(lab_models.draft), "num_speculative_tokens": stage.K}
    with vllm(lab_models, tmp_path, "--speculative-config", json.dumps(draft), PYTHONPATH=path) as url:
        done = await verify(url)
    assert done.returncode == 0, done.stdout + done.stderr
    for entry in verdicts(done):
        assert (entry["verdict"], entry["speculates"]) == ("sound", True)
        assert entry["accepted_tokens"] > 100
