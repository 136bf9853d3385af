"""All checks together: their order, and that nothing a model's files hold ends in a traceback."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

from specwatch.cli import launch_preflight
from specwatch.vllm.preflight import findings
from specwatch.vllm.preflight.findings import Severity, note, refusal, warning
from specwatch.vllm.preflight.run import examine
from tests.support.models import LLAMA, LLAMA_1B, codes, found, model, planned, write
from tests.support.programs import ROOT

ODD = (None, [], {}, "x", "", -1, 0, 1, 1.5, True, 10**400, math.inf, math.nan, [None], {"a": 1})
KEYS = (
    *LLAMA,
    *("head_dim", "rope_scaling", "layer_types", "kv_lora_rank", "num_nextn_predict_layers", "text_config"),
    *("quantization_config", "bos_token_id", "eos_token_id", "target_hidden_size", "tie_word_embeddings", "vocab_size"),
)
CODE = re.compile(r"""(?:\b(?:refusal|warning|note)\(\s*|^_[A-Z]+ = )"([a-z]+(?:-[a-z]+)*)\"[,)\n]""", re.MULTILINE)
METHODS = ("draft_model", "eagle", "eagle3", "mtp", "medusa", "mlp_speculator", "dflash", "dspark")


def test_refusals_come_first_and_notes_last(tmp_path: Path):
    target = model(tmp_path / "t")
    draft = model(tmp_path / "d", LLAMA | {"vocab_size": 9, "max_position_embeddings": 128})
    severities = [finding.severity for finding in examine(planned(target, draft)).findings]
    assert severities == sorted(severities, key=list(Severity).index)
    assert set(severities) == set(Severity)


def test_a_finding_reads_as_text_and_remedy():
    assert str(refusal("a", "This is so.", "Do that.")) == "This is so. Do that."
    assert str(note("a", "This is so.")) == "This is so."
    assert [f.refuses for f in (refusal("a", ""), warning("a", ""), note("a", ""))] == [True, False, False]


def test_a_cached_draft_is_compared_with_a_target_in_a_folder(tmp_path: Path):
    from tests.support.models import cached

    model(cached(tmp_path / "hub", "org/draft"), LLAMA | {"vocab_size": 9})
    plan = planned(model(tmp_path / "t"), "org/draft", environment={"HF_HUB_CACHE": str(tmp_path / "hub")})
    assert "vocabulary-size" in codes(examine(plan).findings)


def test_a_class_that_drafts_is_no_model_to_look_for(tmp_path: Path):
    told = examine(planned(model(tmp_path), "pkg.MyProposer", method="custom_class")).findings
    assert codes(told) == ["sampling"]


def test_a_target_that_drafts_for_itself_is_looked_at_once(tmp_path: Path):
    target = model(tmp_path, LLAMA | {"num_nextn_predict_layers": 1})
    assert codes(examine(planned(target, target, method="mtp", tokens=1)).findings) == ["sampling"]


def test_what_is_to_be_fetched_is_a_note_for_each_model():
    told = [finding for finding in examine(planned("org/t", "org/d")).findings if finding.code == "model-elsewhere"]
    assert [finding.severity for finding in told] == [Severity.NOTE, Severity.NOTE]


def test_a_file_without_permission_is_a_refusal_and_no_traceback(tmp_path: Path, monkeypatch):
    target, draft = model(tmp_path / "t"), model(tmp_path / "d", shapes={"a": [2, 2]})

    def refuse(file: Path) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr("specwatch.vllm.preflight.weights.read_header", refuse)
    assert "Permission denied" in found(examine(planned(target, draft)).findings, "damaged-weights").text


@pytest.mark.parametrize("seed", range(60))
def test_no_configuration_however_odd_ends_in_a_traceback(tmp_path: Path, seed):
    chance = random.Random(seed)

    def odd(config: dict[str, Any]) -> dict[str, Any]:
        return config | {chance.choice(KEYS): chance.choice(ODD) for _ in range(chance.randint(1, 4))}

    target, draft = model(tmp_path / "t"), model(tmp_path / "d")
    for folder in ("t", "d"):
        (tmp_path / folder / "config.json").write_text(json.dumps(odd(dict(chance.choice((LLAMA, LLAMA_1B))))))
        if chance.random() < 0.5:
            write(
                tmp_path / folder / "tokenizer_config.json",
                {chance.choice(("bos_token", "added_tokens_decoder")): chance.choice(ODD)},
            )
        if chance.random() < 0.5:
            write(tmp_path / folder / "generation_config.json", {"min_p": chance.choice(ODD)})
    words = f"--max-model-len {chance.choice((64, '9' * 400, 'x'))} --max-num-seqs {chance.choice((4, '9' * 15))}"
    plan = planned(target, draft, method=chance.choice(METHODS), words=words, gpu_memory=chance.choice((None, 2**34)))
    report = examine(plan)
    assert all(finding.text for finding in report.findings)
    assert isinstance(report.table, str)


def test_every_code_is_explained_and_no_other():
    sources = [*Path(findings.__file__).parent.glob("*.py"), Path(launch_preflight.__file__)]
    used = {code for source in sources for code in CODE.findall(source.read_text())}
    rows = [
        line.split("|")[1] for line in (ROOT / "docs/preflight.md").read_text().splitlines() if line.startswith("| `")
    ]
    assert {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)} == used
    assert len(used) > 25
