"""Launch plans on a real vLLM: n-gram, an engine that dies, and a schedule that drafts less as more requests run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from specwatch.lab import stage
from specwatch.lab.child import free_port
from specwatch.lab.models import LabModels
from specwatch.measure.load import Load
from specwatch.vllm.metrics import Counter, read_page
from tests.support.lab import START_SECONDS, some_prompts, specwatch
from tests.support.processes import Running, family, running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

K = 3
TOKENS = 60
"""Tokens of an answer."""

LONG = 600
"""Tokens of an answer that lasts many times longer than the pause between two requests, also on a busy machine: only
then do requests that are sent at the same time run in the same steps."""


@contextmanager
def planned(models: LabModels, folder: Path, *words: str, **plan: Any) -> Iterator[tuple[Running, str]]:
    """A vLLM under a launch plan, once it serves; at the end nothing of it may be left."""
    port = free_port()
    served = {"host": "127.0.0.1", "port": port, "served-model-name": stage.SERVED_NAME}
    options = served | {"dtype": "bfloat16", "max-model-len": 1024, "max-num-seqs": 16}
    content = {"target": str(models.target), "num_speculative_tokens": K, "sidecar": False, "vllm": options} | plan
    (folder / "plan.yaml").write_text(yaml.safe_dump(content))
    command = specwatch("launch", "--plan", folder / "plan.yaml", *words)
    with running(command, folder / "launch.log", stage.CPU_ENVIRONMENT) as program:
        program.until("vLLM is ready", lambda: "vLLM is ready" in program.output(), START_SECONDS)
        yield program, f"http://127.0.0.1:{port}"
        program.process.terminate()
        assert program.exit_code(seconds=60.0) == 0, program.tail()
        assert program.left_behind() == []


async def counted(url: str, domain: str, concurrency: int, tokens: int = TOKENS) -> dict[Counter, float]:
    """What the server counts while it answers that many requests at a time."""
    load = Load(url, stage.SERVED_NAME, some_prompts(domain), concurrency, tokens)
    before = counters(url)
    totals = await load.run(requests=2 * concurrency)
    assert totals.errors == 0, totals.last_error
    after = counters(url)
    return {counter: after[counter] - before.get(counter, 0.0) for counter in after}


def counters(url: str) -> dict[Counter, float]:
    (engine,) = read_page(requests.get(f"{url}/metrics", timeout=30.0).text).engines.values()
    return dict(engine.counters)


async def test_ngram_serves_and_comes_back_when_its_engine_is_killed(lab_models, tmp_path):
    window = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    with planned(lab_models, tmp_path, "--restart", "on-failure", "--restart-delay", "1", **window) as (program, url):
        found = await counted(url, "json", 2)
        assert found[Counter.DRAFT_TOKENS] > 0
        assert found[Counter.ACCEPTED_TOKENS] > 0
        (engine,) = [process for process in family(program.process.pid) if "EngineCor" in process.command]
        os.kill(engine.pid, signal.SIGKILL)
        program.until("vLLM is ready again", lambda: program.output().count("vLLM is ready") == 2, START_SECONDS)
        assert "starting it again in 1 s (1 of 5)" in program.output()
        assert (await counted(url, "json", 2))[Counter.DRAFT_TOKENS] > 0


async def test_a_schedule_stops_drafting_where_too_many_requests_run(lab_models, tmp_path):
    draft = {"draft": str(lab_models.draft), "method": "draft_model"}
    with planned(lab_models, tmp_path, "--max-spec-concurrency", "2", **draft) as (program, url):
        schedule = json.dumps([[1, 1, 3], [2, 2, 2], [3, 3, 0]])
        assert f'"num_speculative_tokens_per_batch_size": {schedule}' in program.output()
        alone, two, many = [await counted(url, "json", concurrency, LONG) for concurrency in (1, 2, 8)]
        assert alone[Counter.DRAFT_TOKENS] / alone[Counter.DRAFTS] > 2.5
        # Requests begin and end one by one: some steps of the two are steps of one, and of the eight steps of two.
        assert 1.5 < two[Counter.DRAFT_TOKENS] / two[Counter.DRAFTS] < 2.9
        assert many[Counter.DRAFTS] / many[Counter.DECODE_STEPS] < 0.3
        assert alone[Counter.DRAFTS] / alone[Counter.DECODE_STEPS] > 0.9
