"""``specwatch evaluate-draft``, from options to a table, a file of fingerprints, or one clear message."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.evaluate_draft import command
from specwatch.errors import InputError
from specwatch.signals.fingerprint import parse
from tests.support.tiny_models import CONTEXT, Pair, make_pair

pytest.importorskip("torch", reason="needs the extra torch")
pytestmark = pytest.mark.vllm

SMALL = ("--max-tokens", "12", "--k", "2", "--draft-cost", "0.05")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.jsonl"
    path.write_text("".join(f'{{"prompt": "text {number}"}}\n' for number in range(6)))
    return path


def invoke(pair: Pair, *words: str | Path) -> Result:
    models = ("--target", pair.target, "--draft", pair.draft)
    return CliRunner().invoke(command, [str(word) for word in (*models, *SMALL, *words)])


def refusal(pair: Pair, *words: str | Path) -> str:
    result = invoke(pair, *words)
    assert isinstance(result.exception, InputError), (result.output, result.exception)
    return str(result.exception)


def test_the_table_says_which_k_each_domain_wants(pair, documents):
    result = invoke(pair, "--domain", f"numbers={documents}", "--domain", "code", "--limit", "2")
    assert result.exit_code == 0, result.exception
    assert "numbers: " in result.stdout
    assert "code: only 2 documents" in result.stdout
    assert "c = 0.05 (given)" in result.stdout
    assert "GiB on cpu" in result.stderr


def test_a_draft_that_costs_more_than_it_brings_is_called_so(pair, documents):
    result = invoke(pair, "--domain", f"numbers={documents}", "--draft-cost", "5")
    assert "below break-even at every K" in result.stdout


def test_the_file_holds_fingerprints_and_nothing_partial_is_left(pair, documents, tmp_path):
    output = tmp_path / "fingerprints.json"
    result = invoke(pair, "--domain", f"numbers={documents}", "--output", output, "--json")
    assert result.exit_code == 0, result.exception
    content: dict[str, Any] = json.loads(output.read_text())
    assert content == json.loads(result.stdout)
    assert [one.name for one in parse(content)] == ["numbers"]
    assert not list(tmp_path.glob("*.partial"))


def test_an_evaluation_that_failed_goes_on_where_it_ended(pair, documents, tmp_path):
    output = tmp_path / "fingerprints.json"
    whole = invoke(pair, "--domain", f"numbers={documents}", "--json", "--batch-size", "1")
    broken = shutil.copytree(pair.draft, tmp_path / "draft")
    arguments = ("--domain", f"numbers={documents}", "--output", output, "--batch-size", "1", "--draft", broken)
    from specwatch.measure.documents import read
    from specwatch.measure.draft_evaluation import PartialResults, Settings, encode, evaluate
    from specwatch.measure.local_models import Placed, load, locate, tokenizer

    settings = Settings(str(pair.target), str(broken), k=2, max_tokens=12)
    target, placed = locate(str(pair.target)), Placed("cpu", "float32")
    some = encode(tokenizer(target), read([f"numbers={documents}"], limit=4), chat_template=True)
    kept = PartialResults(output.with_name("fingerprints.json.partial"), settings)
    evaluate(load(target, placed), load(locate(str(broken)), placed), some, settings, 1, kept)
    again = invoke(pair, *arguments, "--json")
    assert "4 documents are done already" in again.stderr
    ours, theirs = json.loads(again.stdout)["domains"]["numbers"], json.loads(whole.stdout)["domains"]["numbers"]
    assert ours["by_k"][0]["acceptance_rate"] == pytest.approx(theirs["by_k"][0]["acceptance_rate"], abs=1e-4)


def test_other_tokens_are_refused_with_the_differences(pair, documents, tmp_path):
    other = shutil.copytree(pair.draft, tmp_path / "other")
    content = json.loads((other / "tokenizer.json").read_text())
    tokens = content["model"]["vocab"]
    tokens["a"], tokens["b"] = tokens["b"], tokens["a"]
    (other / "tokenizer.json").write_text(json.dumps(content))
    told = refusal(pair, "--domain", f"numbers={documents}", "--draft", other)
    assert "2 of 259 numbers mean different tokens" in told
    assert "“a”" in told


def test_a_model_that_is_not_here_is_named_when_offline(pair, documents, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    told = refusal(pair, "--domain", f"numbers={documents}", "--draft", "no-such/model")
    assert "no-such/model" in told
    assert "HF_HUB_OFFLINE" in told


def test_a_truncated_checkpoint_is_named(pair, documents, tmp_path):
    broken = shutil.copytree(pair.draft, tmp_path / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    assert f"{weights} is cut off" in refusal(pair, "--domain", f"numbers={documents}", "--draft", broken)


def test_a_checkpoint_that_lacks_weights_is_refused_and_not_filled_with_random_ones(pair, documents, tmp_path):
    broken = shutil.copytree(pair.draft, tmp_path / "broken")
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    assert "lacks weights" in refusal(pair, "--domain", f"numbers={documents}", "--draft", broken)


def test_documents_longer_than_the_context_are_left_out_and_named(pair, documents):
    documents.write_text(f'{documents.read_text()}{{"prompt": "{"a" * CONTEXT}"}}\n')
    result = invoke(pair, "--domain", f"numbers={documents}", "--json")
    assert json.loads(result.stdout)["left_out"] == [f"{documents}:7"]
    assert f"1 of 7 documents, {documents}:7 the first, are longer than the {CONTEXT} tokens" in result.stderr
    documents.write_text(documents.read_text().splitlines()[-1])
    assert "lower --max-tokens" in refusal(pair, "--domain", f"numbers={documents}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--device", "cuda:77"), "--device cuda:77"),
        (("--device", "toaster"), "--device toaster"),
        (("--output", "/no/such/folder/file.json"), "there is no folder"),
        (("--domain", "poems"), "built in are"),
    ],
)
def test_options_that_cannot_be_used_are_named(pair, documents, words, told):
    assert told in refusal(pair, "--domain", f"numbers={documents}", *words)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from specwatch.cli import main
sys.argv = ["specwatch", "evaluate-draft", "--target", "t", "--draft", "d", "--domain", "code"]
main()
"""


def test_without_torch_it_says_what_to_install():
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    assert ended.returncode == 1
    assert ended.stderr == "specwatch: torch is not installed: pip install 'specwatch[torch]'\n"
