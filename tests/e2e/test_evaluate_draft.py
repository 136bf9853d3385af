"""What evaluate-draft predicts from the lab's models is what vLLM counts when it serves them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from specwatch.collect.scraper import http_session
from specwatch.lab.corpus import DOMAINS, prompts
from specwatch.lab.models import LabModels
from specwatch.lab.stage import CONCURRENCY, MAX_TOKENS, SERVED_NAME, K
from specwatch.measure.calibration.servers import count, settled
from specwatch.measure.load import Load
from specwatch.vllm.metrics import Counter
from tests.support.lab import LabServer, specwatch
from tests.support.programs import run

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]

AGREEMENT = 0.03
"""Acceptance rates may differ by this much: vLLM and transformers round differently in 16 bits."""

DOCUMENTS = 12
"""Of each domain."""


async def counted(server: LabServer, domain: str) -> float:
    """VLLM's acceptance rate over the domain's prompts, each asked once."""
    asked = prompts(domain, DOCUMENTS, seed=2)
    load = Load(server.url, SERVED_NAME, asked, CONCURRENCY, MAX_TOKENS, ignore_eos=False)
    async with http_session() as session:
        before = await count(session, server.url)
        totals = await load.run(requests=DOCUMENTS)
        assert totals.errors == 0, totals.last_error
        added = (await settled(session, server.url, before, DOCUMENTS)).counters
    return added[Counter.ACCEPTED_TOKENS] / added[Counter.DRAFT_TOKENS]


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
