"""What evaluate-draft predicts from the lab's models is what vLLM counts when it serves them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specwatch.collect.scraper import http_session, scrape
from specwatch.collect.targets import parse
from specwatch.lab.corpus import DOMAINS, prompts
from specwatch.lab.models import LabModels
from specwatch.lab.stage import CONCURRENCY, MAX_TOKENS, SERVED_NAME, K
from specwatch.measure.load import Load
from specwatch.vllm.metrics import Counter
from tests.support.lab import LabServer, specwatch
from tests.support.programs import run

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

AGREEMENT = 0.03
"""Acceptance rates may differ by this much: vLLM and transformers round differently in 16 bits."""

DOCUMENTS = 12
"""Of each domain."""

SETTLE_SECONDS = 1.0
"""vLLM counts a step a little after it was answered."""


async def accepted_and_drafted(server: LabServer) -> tuple[float, float]:
    async with http_session() as session:
        page = await scrape(session, parse(server.url))
    (engine,) = page.engines.values()
    return engine.counters[Counter.ACCEPTED_TOKENS], engine.counters[Counter.DRAFT_TOKENS]


async def counted(server: LabServer, domain: str) -> float:
    """VLLM's acceptance rate over the domain's prompts, each asked once."""
    before = await accepted_and_drafted(server)
    asked = prompts(domain, DOCUMENTS, seed=2)
    load = Load(server.url, SERVED_NAME, asked, CONCURRENCY, MAX_TOKENS, ignore_eos=False)
    totals = await load.run(requests=DOCUMENTS)
    assert totals.errors == 0, totals.last_error
    await asyncio.sleep(SETTLE_SECONDS)
    accepted, drafted = await accepted_and_drafted(server)
    return (accepted - before[0]) / (drafted - before[1])


def predicted(models: LabModels, folder: Path) -> dict[str, float]:
    """The command's acceptance rates at the server's K, by domain."""
    output = folder / "fingerprints.json"
    words: list[str | Path] = ["--target", models.target, "--draft", models.draft, "--output", output]
    for domain in DOMAINS:
        file = folder / f"{domain}.jsonl"
        file.write_text("".join(f"{json.dumps({'prompt': text})}\n" for text in prompts(domain, DOCUMENTS, seed=2)))
        words += ["--domain", f"{domain}={file}"]
    words += ["--k", str(K), "--max-tokens", str(MAX_TOKENS), "--dtype", "bfloat16", "--device", "cpu"]
    # More threads only hinder each other on models this small.
    run(specwatch("evaluate-draft", *words), env=os.environ | {"OMP_NUM_THREADS": "1"})
    content = json.loads(output.read_text())
    return {name: domain["by_k"][K - 1]["acceptance_rate"] for name, domain in content["domains"].items()}


async def test_predicted_acceptance_is_what_vllm_counts_on_every_domain(
    lab_server: LabServer,
    lab_models: LabModels,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
):
    expected = predicted(lab_models, tmp_path)
    for domain in DOMAINS:
        rate = await counted(lab_server, domain)
        record_property(f"acceptance of {domain}", f"{expected[domain]:.3f} predicted, {rate:.3f} counted")
        assert rate == pytest.approx(expected[domain], abs=AGREEMENT)
