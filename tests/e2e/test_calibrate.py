"""``specwatch calibrate --launch`` on a real vLLM: servers started in turn, and what their counters and answers say."""

from __future__ import annotations

import json

import pytest
import yaml

from specwatch.lab import stage
from specwatch.lab.corpus import prompts
from specwatch.vllm import calibration
from tests.support.lab import HOME, specwatch
from tests.support.processes import running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

K = 3
ENOUGH_SECONDS = 1000.0
"""Three starts of vLLM and some seconds of traffic: two minutes on idle cores."""


def test_a_plan_is_measured_with_and_without_speculation(lab_models, tmp_path, record_property):
    options = {"dtype": "bfloat16", "max-model-len": 1024, "enforce-eager": True, "served-model-name": "lab"}
    plan = {"target": str(lab_models.target), "draft": str(lab_models.draft), "method": "draft_model", "vllm": options}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    lines = (json.dumps({"prompt": prompt}) for prompt in prompts(HOME, 16, seed=5))
    (tmp_path / "home.jsonl").write_text("\n".join(lines))
    command = specwatch("calibrate", "--launch", tmp_path / "plan.yaml", "--k", str(K))
    command += ["--domain", f"home={tmp_path}/home.jsonl", "--output", tmp_path / "c.json"]
    command += ["--max-concurrency", "2", "--requests", "4", "--max-tokens", "64", "--repetitions", "2"]
    with running(command, tmp_path / "calibrate.log", stage.CPU_ENVIRONMENT) as program:
        assert program.exit_code(ENOUGH_SECONDS) == 0, program.tail()
        assert program.left_behind() == []
    measured = json.loads((tmp_path / "c.json").read_text())
    for cell in measured["cells"]:
        assert (cell["errors"], cell["tokens"], cell["baseline_tokens"]) == (0, 512, 512)
        assert cell["mean_k"] == pytest.approx(K, abs=0.1)
        assert len(cell["acceptance_by_position"]) == K
        # The draft was made for this traffic, and at temperature 0 speculation promises the same text.
        assert cell["acceptance_length"] > 1.5
        assert cell["equal_texts"] > 0.7
        record_property(f"lab speedup, K {K}, concurrency {cell['concurrency']}", cell["speedup"])
    kept = calibration.read(tmp_path / "c.json")
    assert (kept.target, kept.method, kept.draft) == (plan["target"], "draft_model", plan["draft"])
    assert kept.measured == (K,)
    assert len(kept.costs) == 2
    assert measured["vllm"]
