"""``specwatch bench-hf``, from options to a table, JSON or one clear message."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specwatch.cli.bench_hf import command
from specwatch.errors import InputError, SpecwatchError
from tests.support.tiny_models import CONTEXT, Pair, make_pair

pytest.importorskip("torch", reason="needs the extra torch")
pytestmark = pytest.mark.vllm

SMALL = ("--max-tokens", "8", "--k", "2", "--repetitions", "1", "--warm-up", "0", "--no-chat-template")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


def invoke(pair: Pair, *words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in ("--target", pair.target, *SMALL, *words)])


def test_three_arms_on_three_domains(pair, tmp_path):
    output = tmp_path / "figures.json"
    domains = ("--domain", "code", "--domain", "json", "--domain", "prose-es", "--limit", "1")
    result = invoke(pair, "--draft", pair.draft, *domains, "--output", output)
    assert result.exit_code == 0, result.exception
    content: dict[str, Any] = json.loads(output.read_text())
    assert list(content["domains"]) == ["code", "json", "prose-es", "all"]
    for domain in content["domains"].values():
        assert list(domain["arms"]) == ["plain", "assisted", "n-gram"]
        assert domain["arms"]["assisted"]["equal_to_plain"] == domain["arms"]["n-gram"]["equal_to_plain"] == 1.0
        assert domain["arms"]["plain"]["tokens"] == 8 * domain["prompts"]
    assert "assisted" in result.stdout
    assert "differ" not in result.stdout


def test_without_a_draft_n_grams_are_left(pair):
    result = invoke(pair, "--domain", "code", "--limit", "1", "--json")
    assert list(json.loads(result.stdout)["domains"]["code"]["arms"]) == ["plain", "n-gram"]


def test_what_was_measured_before_a_failure_is_kept(pair, tmp_path, monkeypatch):
    import specwatch.measure.hf_benchmark as benchmark

    whole = benchmark._generate
    calls: list[int] = []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 5:
            raise MemoryError
        return whole(*arguments, **options)

    monkeypatch.setattr(benchmark, "_generate", failing)
    output = tmp_path / "figures.json"
    result = invoke(pair, "--domain", "code", "--limit", "4", "--output", output)
    assert isinstance(result.exception, SpecwatchError)
    assert "--dtype bfloat16" in str(result.exception)
    content = json.loads(output.read_text())
    assert content["partial"]
    assert content["domains"]["code"]["prompts"] == 2
    assert "Broken off" in result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--no-ngram",), "nothing to compare"),
        (("--output", "/no/such/folder/file"), "there is no folder"),
        (("--device", "toaster"), "--device toaster"),
        (("--max-tokens", str(CONTEXT)), "lower --max-tokens"),
    ],
)
def test_options_that_cannot_be_used_are_named(pair, words, told):
    result = invoke(pair, "--domain", "code", "--limit", "1", *words)
    assert isinstance(result.exception, InputError)
    assert told in str(result.exception)


def test_a_draft_with_other_tokens_is_refused(pair, tmp_path):
    other = shutil.copytree(pair.draft, tmp_path / "other")
    content = json.loads((other / "tokenizer.json").read_text())
    tokens = content["model"]["vocab"]
    tokens["a"], tokens["b"] = tokens["b"], tokens["a"]
    (other / "tokenizer.json").write_text(json.dumps(content))
    result = invoke(pair, "--draft", other, "--domain", "code")
    assert "numbers mean different tokens" in str(result.exception)
