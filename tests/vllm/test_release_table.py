"""Every method on every release: the committed table, and the traps of single releases one by one."""

from __future__ import annotations

import json
import shlex
from difflib import unified_diff

import pytest

from specwatch.errors import InputError
from specwatch.vllm import features
from specwatch.vllm.arguments import read
from specwatch.vllm.releases import Release, holding
from specwatch.vllm.translation import Translation, translate
from tests.support.release_table import FILE, PLANS, RELEASES, outcome, table

RENAMED = ("deepseek_mtp", "ernie_mtp", "qwen3_next_mtp")
"""Methods that later releases run by another name."""
DRAFT = "--model M --speculative-model D --num-speculative-tokens 5"


def at(release: str, text: str) -> Translation:
    return translate(read(shlex.split(text)), Release.parse(release))


def command(release: str, text: str) -> str:
    return shlex.join(at(release, text).arguments)


def refusal(release: str, text: str) -> str:
    with pytest.raises(InputError) as caught:
        at(release, text)
    return str(caught.value)


def test_the_table_holds():
    changes = "\n".join(
        unified_diff(FILE.read_text().splitlines(), table().splitlines(), "committed", "now", lineterm="")
    )
    assert not changes, f"look whether each change is right, then: python -m tests.support.release_table\n{changes}"


def test_the_table_has_every_method_and_releases_of_every_year():
    assert set(PLANS) == {fact.name for fact in features.METHODS}
    assert len(RELEASES) == len(set(RELEASES)) >= 25
    assert (RELEASES[0], RELEASES[-1]) == (str(features.OLDEST), str(features.NEWEST))
    assert list(RELEASES) == sorted(RELEASES, key=Release.parse)


@pytest.mark.parametrize("method", PLANS)
def test_a_method_is_refused_exactly_where_it_does_not_exist(method):
    for release in RELEASES:
        name = "mtp" if method in RENAMED and Release.parse(release) >= Release.parse("0.11.0") else method
        exists = holding(features.METHODS, name, Release.parse(release)) is not None
        refused = outcome(release, {"method": method} | PLANS[method]).startswith("REFUSED ")
        assert refused is not exists, release


@pytest.mark.parametrize("release", ["0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.13.0", "0.14.1"])
def test_no_release_from_0_10_to_0_14_runs_a_draft_model(release):
    said = refusal(release, DRAFT)
    assert "its successor ran no draft models before 0.15.0; it works again from 0.15.0 on" in said
    assert f"On {release} the nearest that works: eagle3" in said


@pytest.mark.parametrize("release", ["0.10.0", "0.10.1.1", "0.10.2"])
@pytest.mark.parametrize("flag", ["--data-parallel-size 2", "-dp 2", "--data-parallel-size=2"])
def test_speculation_with_data_parallel_crashes_0_10(release, flag):
    said = refusal(release, f"--model M --spec-method ngram --spec-tokens 3 {flag}")
    assert "it crashes at startup" in said
    assert "or take vLLM 0.11.0 or newer" in said


@pytest.mark.parametrize(
    "written", ['{"model": "D", "num_speculative_tokens": 5}', '{"num_speculative_tokens":5,"model":"D"}']
)
def test_0_8_2_reads_python_for_json_and_gets_flags(written):
    assert command("0.8.2", f"--model M --speculative-config {shlex.quote(written)}") == DRAFT


@pytest.mark.parametrize("release", ["0.9.1", "0.9.2", "0.10.2", "0.12.0", "0.15.1"])
def test_a_key_that_would_be_ignored_in_silence_is_refused(release):
    said = refusal(release, "--model M -sc.method ngram -sc.num_speculative_tokens 3 -sc.prompt_lookup_maxx 4")
    assert "prompt_lookup_maxx: no key of vLLM" in said
    assert "did you mean prompt_lookup_max?" in said


@pytest.mark.parametrize("release", ["0.9.0.1", "0.9.2", "0.10.2", "0.12.0", "0.16.0", "0.17.1", "0.32.0"])
def test_a_batch_limit_that_v1_never_read_is_refused(release):
    said = refusal(release, "--model M --spec-method ngram --spec-tokens 3 --speculative-disable-by-batch-size 32")
    assert f"disable_by_batch_size 32: no effect on vLLM {release} with ngram" in said


@pytest.mark.parametrize(
    ("release", "value", "known"),
    [
        ("0.20.2", "standard", "It has strict, probabilistic, synthetic."),
        ("0.21.0", "strict", "It has synthetic, standard."),
        ("0.21.0", "probabilistic", "It has synthetic, standard."),
        ("0.24.0", "block", "It has synthetic, standard."),
    ],
)
def test_the_words_for_rejection_sampling_are_those_of_the_release(release, value, known):
    said = refusal(release, f"{DRAFT} -sc.rejection_sample_method {value}")
    assert f"rejection_sample_method {value}: not in vLLM {release}" in said
    assert known in said


@pytest.mark.parametrize(
    ("release", "word"), [("0.21.0", "gumbel"), ("0.22.0", "probabilistic"), ("0.33.0", "probabilistic")]
)
@pytest.mark.parametrize("asked", ["gumbel", "probabilistic"])
def test_sampled_drafts_are_called_as_the_release_calls_them(release, word, asked):
    written = json.loads(at(release, f"{DRAFT} -sc.draft_sample_method {asked}").arguments[-1])
    assert written["draft_sample_method"] == word


@pytest.mark.parametrize(
    "text",
    [
        "--model M --speculative-model D --num-speculative-tokens 5",
        '--model M --speculative-config \'{"model": "D", "num_speculative_tokens": 5}\'',
        "--model M --spec-model D --spec-tokens 5",
        "--model M -sc.model D -sc.num_speculative_tokens 5",
        "vllm serve M --speculative_model=D --num_speculative_tokens=5",
    ],
)
@pytest.mark.parametrize(
    "release", ["0.4.3", "0.6.3.post1", "0.7.3", "0.8.2", "0.8.3", "0.9.2", "0.15.0", "0.24.0", "0.32.0"]
)
def test_every_way_to_ask_ends_in_the_same_words(release, text):
    assert at(release, text).speculation == at(release, DRAFT).speculation
    assert ("--speculative-config" in command(release, text)) is (Release.parse(release) >= Release.parse("0.8.3"))
