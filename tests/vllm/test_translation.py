"""Releases × command lines: the exact command, or the exact reason why there is none."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.vllm.arguments import read
from specwatch.vllm.releases import Release
from specwatch.vllm.translation import Translation, translate

BEFORE = "--model meta-llama/Meta-Llama-3.1-70B-Instruct --tensor-parallel-size 4"
ASKED = (
    "--speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5 --speculative-max-model-len 8192"
)
AFTER = "--gpu-memory-utilization 0.92 --max-num-seqs 64 --port 8000 --host 0.0.0.0"
ARTICLE = f"{BEFORE} {ASKED} {AFTER}"
AS_JSON = (
    '--speculative-config \'{"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct", '
    '"num_speculative_tokens": 5, "max_model_len": 8192}\''
)
DRAFT = "--speculative-model D --num-speculative-tokens 5"
NGRAM = "--speculative-model '[ngram]' --num-speculative-tokens 3 --ngram-prompt-lookup-max 4"
LEGACY_RELEASES = ["0.4.3", "0.5.1", "0.5.5", "0.6.0", "0.6.3", "0.6.4", "0.6.6", "0.7.3", "0.8.0", "0.8.2"]
BLOCK_MANAGER_RELEASES = ["0.4.3", "0.5.1", "0.5.5", "0.6.0", "0.6.3"]
GAP = ["0.10.0", "0.10.1.1", "0.10.2", "0.11.0", "0.11.2", "0.12.0", "0.13.0", "0.14.1"]
JSON_RELEASES = ["0.8.3", "0.8.5.post2", "0.9.0", "0.9.2", "0.15.0", "0.16.0", "0.17.1", "0.20.2", "0.21.0"]
NEW_RELEASES = ["0.22.0", "0.24.0", "0.28.0", "0.32.0", "0.32.0+cpu", "0.33.0", "0.33.1rc1", "0.40.0"]


def at(release: str, text: str) -> Translation:
    return translate(read(shlex.split(text)), Release.parse(release))


def command(release: str, text: str) -> str:
    return shlex.join(at(release, text).arguments)


def notes(release: str, text: str) -> list[str]:
    return [str(note) for note in at(release, text).notes]


def config(release: str, text: str) -> dict[str, Any]:
    """What --speculative-config holds after the translation."""
    words = at(release, text).arguments
    content: dict[str, Any] = json.loads(words[words.index("--speculative-config") + 1])
    return content


def refusal(release: str, text: str) -> str:
    with pytest.raises(InputError) as raised:
        at(release, text)
    return str(raised.value)


@pytest.mark.parametrize("release", [r for r in LEGACY_RELEASES if r not in BLOCK_MANAGER_RELEASES])
def test_the_article_is_left_alone_where_its_flags_exist(release):
    assert command(release, ARTICLE) == ARTICLE
    assert notes(release, ARTICLE) == []


@pytest.mark.parametrize("release", BLOCK_MANAGER_RELEASES)
def test_the_oldest_releases_get_the_block_manager_that_they_need(release):
    assert command(release, ARTICLE) == f"{BEFORE} {ASKED} --use-v2-block-manager {AFTER}"
    assert notes(release, ARTICLE) == ["--use-v2-block-manager is added: speculation needs it up to 0.6.3"]


@pytest.mark.parametrize("release", JSON_RELEASES + NEW_RELEASES)
def test_the_article_is_written_as_json_in_its_place_where_the_flags_are_gone(release):
    greedy = AS_JSON.replace("}", ', "draft_sample_method": "greedy"}')
    written = greedy if Release.parse(release) >= Release.parse("0.21.0") else AS_JSON
    assert command(release, ARTICLE) == f"{BEFORE} {written} {AFTER}"
    shown = Release.parse(release)
    assert (
        "--speculative-model, --num-speculative-tokens and --speculative-max-model-len left vLLM with 0.8.3: "
        f"written as --speculative-config for {shown}"
    ) in notes(release, ARTICLE)


@pytest.mark.parametrize("release", GAP)
def test_the_article_is_refused_where_no_engine_runs_draft_models(release):
    assert refusal(release, ARTICLE) == (
        f"vLLM {release} cannot speculate with method draft_model (draft meta-llama/Llama-3.2-1B-Instruct): 0.10.0 "
        "took the V0 engine away and its successor ran no draft models before 0.15.0; it works again from 0.15.0 on. "
        f"On {release} the nearest that works: eagle3 (a head trained for this target), or eagle (a head trained for "
        "this target), or ngram (nothing but text that repeats its prompt)."
    )


@pytest.mark.parametrize("release", LEGACY_RELEASES[1:] + JSON_RELEASES[:1])
@pytest.mark.parametrize(
    "text", ["--model M --spec-model D --spec-tokens 5", "--model M -sc.model D -sc.num_speculative_tokens 5"]
)
def test_new_flags_are_written_in_the_words_of_an_old_release(release, text):
    written = command(release, text).removesuffix(" --use-v2-block-manager")
    old = f"--model M {DRAFT}"
    new = '--model M --speculative-config \'{"method": "draft_model", "model": "D", "num_speculative_tokens": 5}\''
    assert written == (new if release == "0.8.3" else old)


@pytest.mark.parametrize("release", NEW_RELEASES)
@pytest.mark.parametrize(
    "text",
    [
        '--model M --spec-model D --spec-tokens 5 -sc \'{"draft_sample_method":  "probabilistic"}\' --port 1',
        "--model M --port 1 --spec_method=suffix --spec_tokens=3",
        '--model M -sc \'{"model": "[ngram]", "num_speculative_tokens": 3, "prompt_lookup_max":4, '
        '"prompt_lookup_min":2}\'',
        "--model M --spec-method custom_class --spec-model my.Proposer --spec-tokens 3",
        "--model M --port 1",
    ],
)
def test_what_a_release_takes_as_it_is_stays_as_it_is(release, text):
    assert command(release, text) == shlex.join(shlex.split(text))


@pytest.mark.parametrize(
    ("release", "arguments", "note"),
    [
        ("0.21.0", "--spec-method ngram --spec-tokens 3", "--spec-method and --spec-tokens came with 0.22.0"),
        ("0.8.2", '-sc \'{"model": "D", "num_speculative_tokens": 5}\'', "--speculative-config came with 0.8.3"),
        ("0.32.0", f"{DRAFT} --use-v2-block-manager", "--use-v2-block-manager is left out: it did nothing since 0.6.4"),
        ("0.10.0", "--use-v2-block-manager", "--use-v2-block-manager is left out: it did nothing since 0.6.4"),
        ("0.32.0", f"{DRAFT} --disable-logprobs-during-spec-decoding", "disable_logprobs is left out: the V1 engine"),
        ("0.32.0", f"{DRAFT} --speculative-disable-mqa-scorer", "disable_mqa_scorer is left out: it chose between"),
        (
            "0.32.0",
            f"{DRAFT} --spec-decoding-acceptance-method rejection_sampler",
            "acceptance_method is left out: typical acceptance was part of the V0 engine",
        ),
        ("0.11.0", "--spec-method deepseek_mtp --spec-tokens 1", "deepseek_mtp is called mtp since 0.11.0"),
        (
            "0.22.0",
            f'{DRAFT} -sc \'{{"draft_sample_method": "gumbel"}}\'',
            "draft_sample_method gumbel is called probabilistic in 0.22.0",
        ),
        (
            "0.21.0",
            f'{DRAFT} -sc \'{{"draft_sample_method": "probabilistic"}}\'',
            "draft_sample_method probabilistic is called gumbel in 0.21.0",
        ),
        (
            "0.24.0",
            f"{DRAFT} -sc '{{\"num_speculative_tokens_per_batch_size\": [[1, 4, 7], [5, 5, 0]]}}'",
            "K 7 in the schedule is cut to num_speculative_tokens 5",
        ),
        ("0.40.0", DRAFT, "vLLM 0.40.0 is newer than what specwatch knows: treated like 0.33.0"),
        ("0.32.1rc1", DRAFT, "vLLM 0.32.1rc1 is a build between releases: treated like 0.32.1"),
        ("0.9.2", "--spec-model yuhuili/EAGLE3-x --spec-tokens 3", "method eagle3 is written out: vLLM 0.9 runs it on"),
    ],
)
def test_every_change_and_every_oddity_is_said_in_one_line(release, arguments, note):
    said = notes(release, f"--model M {arguments}")
    assert [text for text in said if text.startswith(note)], said
    assert all("\n" not in text for text in said)


@pytest.mark.parametrize(("release", "said"), [("0.9.2", 0), ("0.15.0", 1), ("0.32.0", 1)])
def test_a_draft_length_is_remarked_where_the_engine_does_not_heed_it(release, said):
    found = [text for text in notes(release, ARTICLE) if text.startswith("max_model_len 8192: ")]
    assert len(found) == said


@pytest.mark.parametrize(
    ("release", "text", "expected"),
    [
        # Left alone, the flags search matches from 1 token on; the JSON would take 4 for both ends.
        ("0.32.0", NGRAM, {"prompt_lookup_max": 4, "prompt_lookup_min": 1}),
        ("0.9.2", NGRAM, {"prompt_lookup_max": 4, "prompt_lookup_min": 1}),
        ("0.32.0", f"{NGRAM} --ngram-prompt-lookup-min 2", {"prompt_lookup_max": 4, "prompt_lookup_min": 2}),
    ],
)
def test_ngram_searches_the_same_window_after_the_translation(release, text, expected):
    assert config(release, f"--model M {text}") == {"method": "ngram", "num_speculative_tokens": 3} | expected


@pytest.mark.parametrize(
    ("keys", "window"),
    [
        ("", "--ngram-prompt-lookup-max 5 --ngram-prompt-lookup-min 5"),
        (', "prompt_lookup_max": 4', "--ngram-prompt-lookup-max 4 --ngram-prompt-lookup-min 4"),
        (', "prompt_lookup_min": 2', "--ngram-prompt-lookup-min 2 --ngram-prompt-lookup-max 2"),
    ],
)
def test_ngrams_new_defaults_are_written_out_for_an_old_release(keys, window):
    written = command("0.7.3", f'--model M -sc \'{{"method": "ngram", "num_speculative_tokens": 3{keys}}}\'')
    assert written == f"--model M --speculative-model '[ngram]' --num-speculative-tokens 3 {window}"


@pytest.mark.parametrize("release", ["0.8.3", "0.15.0", "0.32.0"])
@pytest.mark.parametrize(
    ("keys", "window"), [({}, [5, 5]), ({"prompt_lookup_max": 4}, [4, 4]), ({"prompt_lookup_min": 2}, [2, 2])]
)
def test_the_window_that_the_json_leaves_open_is_written_out(release, keys, window):
    asked = {"method": "ngram", "num_speculative_tokens": 3} | keys
    text = f"--model M -sc {shlex.quote(json.dumps(asked))}"
    assert config(release, text) == asked | {"prompt_lookup_max": window[0], "prompt_lookup_min": window[1]}
    assert any(
        "written out, for the older flags and --speculative-config mean different" in n for n in notes(release, text)
    )


@pytest.mark.parametrize("method", ["draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark"])
@pytest.mark.parametrize(("release", "written"), [("0.20.2", None), ("0.21.0", "greedy"), ("0.33.0", "greedy")])
def test_how_drafts_are_sampled_is_written_out_where_there_is_a_choice(release, written, method):
    text = f"--model M -sc.method {method} -sc.model D -sc.num_speculative_tokens 3"
    if (method, release) in (("dspark", "0.20.2"), ("dspark", "0.21.0")):
        assert "it came with 0.25.0" in refusal(release, text)
        return
    assert config(release, text).get("draft_sample_method") == written
    assert (written is not None) is any(note.startswith("draft_sample_method greedy:") for note in notes(release, text))


@pytest.mark.parametrize("method", ["ngram", "suffix", "medusa", "custom_class"])
def test_a_method_that_does_not_sample_is_told_nothing_of_it(method):
    text = f"--model M -sc.method {method} -sc.model a.B -sc.num_speculative_tokens 3"
    assert "draft_sample_method" not in config("0.32.0", text)


def test_how_drafts_are_sampled_stays_as_it_was_asked_for():
    text = f"--model M {DRAFT} -sc.draft_sample_method probabilistic"
    assert config("0.32.0", text)["draft_sample_method"] == "probabilistic"


@pytest.mark.parametrize(
    ("release", "arguments", "message"),
    [
        ("0.3.3", DRAFT, "vLLM 0.3.3 cannot speculate: that began with 0.4.1"),
        ("0.4.1", NGRAM, "vLLM 0.4.1 cannot speculate with method ngram: it came with 0.4.2"),
        ("0.4.1", f"{DRAFT} --speculative-max-model-len 99", "max_model_len: not in vLLM 0.4.1: it came with 0.4.2"),
        (
            "0.5.4",
            f"{DRAFT} --speculative-model-quantization fp8",
            "quantization: not in vLLM 0.5.4: it came with 0.5.5",
        ),
        ("0.8.2", f'{DRAFT} -sc \'{{"revision": "main"}}\'', "revision: not in vLLM 0.8.2: it came with 0.8.3"),
        (
            "0.32.0",
            "--speculative-model D",
            "num_speculative_tokens is missing: how many tokens the draft proposes in one step. Add "
            "--num-speculative-tokens 5, the usual start.",
        ),
        ("0.32.0", "--spec-method mtp", "num_speculative_tokens is missing: how many tokens the draft proposes in one"),
        ("0.32.0", "--spec-method mtp", "Add --num-speculative-tokens 1, the usual start."),
        (
            "0.21.0",
            f"{DRAFT} -sc.use_local_argmax_reduction true -sc.draft_sample_method gumbel",
            "use_local_argmax_reduction with draft_sample_method gumbel: it takes greedy only",
        ),
        (
            "0.32.0",
            "--speculative-model D --num-speculative-tokens 0",
            "num_speculative_tokens 0: at least 1 is needed",
        ),
        ("0.32.0", "--num-speculative-tokens 5", "speculation is asked for without a draft"),
        ("0.32.0", "--spec-method eagle3 --spec-tokens 3", "method eagle3 needs its draft"),
        ("0.32.0", "--spec-method n_gram --spec-tokens 3", "did you mean ngram?"),
        ("0.32.0", "--spec-method quantum --spec-tokens 3", "vLLM 0.32.0 has draft_model, ngram, medusa, eagle"),
        (
            "0.33.0",
            "--spec-method medusa --spec-model X --spec-tokens 3",
            "vLLM 0.33.0 cannot speculate with method medusa (draft X): 0.33.0 removed it. On 0.33.0 the nearest",
        ),
        ("0.11.0", "--spec-method suffix", "vLLM 0.11.0 cannot speculate with method suffix: it came with 0.11.1"),
        (
            "0.10.2",
            "--spec-method mtp --spec-tokens 1",
            "method mtp: it came with 0.11.0. On 0.10.2 the nearest that works: deepseek_mtp, or ernie_mtp, or "
            "qwen3_next_mtp.",
        ),
        (
            "0.12.0",
            "--spec-method mlp_speculator --spec-model X --spec-tokens 3",
            "it only ever ran on the V0 engine, which 0.10.0 took away",
        ),
        (
            "0.32.0",
            f"{DRAFT} --speculative-disable-by-batch-size 32",
            "disable_by_batch_size 32: no effect on vLLM 0.32.0 with draft_model: the V1 engine never read it and "
            '0.17.0 removed it. Write "num_speculative_tokens_per_batch_size": [[1, 31, 5], [32, 32, 0]] in its place: '
            "K by batch size, the last one for all above; or --max-spec-concurrency 31, which steps down to it.",
        ),
        (
            "0.15.0",
            f"{DRAFT} --speculative-disable-by-batch-size 32",
            "disable_by_batch_size 32: no effect on vLLM 0.15.0 with draft_model: the V1 engine accepts it and never "
            "reads it. Leave it out. vLLM 0.24.0 has num_speculative_tokens_per_batch_size for it. Until then cap the "
            "batch, --max-num-seqs 31: more requests wait for their turn; or serve the busy hours without speculation.",
        ),
        ("0.9.2", f"{NGRAM} --speculative-disable-by-batch-size 32", "no effect on vLLM 0.9.2 with ngram"),
        (
            "0.32.0",
            f"{DRAFT} --spec-decoding-acceptance-method typical_acceptance_sampler",
            "acceptance_method: not in vLLM 0.32.0: typical acceptance was part of the V0 engine",
        ),
        (
            "0.23.0",
            f"{DRAFT} -sc '{{\"num_speculative_tokens_per_batch_size\": [[1, 4, 5]]}}'",
            "num_speculative_tokens_per_batch_size: not in vLLM 0.23.0: it came with 0.24.0",
        ),
        (
            "0.12.0",
            "--spec-method ngram --spec-tokens 3 -sc.prompt_lookup_maximum 4",
            "prompt_lookup_maximum: no key of vLLM 0.12.0 (0.9.1 to 0.15 would ignore it in silence); did you mean "
            "prompt_lookup_max?",
        ),
        ("0.32.0", f"{DRAFT} -sc.tensor_parallel_size 1", "it is called draft_tensor_parallel_size"),
        (
            "0.21.0",
            f"{DRAFT} -sc.rejection_sample_method strict",
            "rejection_sample_method strict: not in vLLM 0.21.0: 0.21.0 renamed the values",
        ),
        ("0.32.0", f"{DRAFT} -sc.rejection_sample_method blok", "no such value; did you mean block?"),
        ("0.32.0", f"{DRAFT} -sc.max_model_len 0", "max_model_len: a whole number from 1 on is needed, not 0"),
        ("0.32.0", f"{DRAFT} -sc.max_model_len 8192 --max-model-len 4096", "larger than the target's --max-model-len"),
        ("0.32.0", f"{DRAFT} -sc.draft_tensor_parallel_size 2 -tp 4", "a draft runs on 1 device or on as many"),
        (
            "0.32.0",
            f"{NGRAM} --ngram-prompt-lookup-min 6",
            "prompt_lookup_min 6 is larger than prompt_lookup_max 4",
        ),
        (
            "0.10.2",
            f"{NGRAM} --data-parallel-size 2",
            "--data-parallel-size 2 with speculation on vLLM 0.10.2: it crash",
        ),
        ("0.9.2", f"{DRAFT} -pp 2", "--pipeline-parallel-size 2 with speculation on vLLM 0.9.2: the V0 engine raises"),
        (
            "0.28.0",
            f"{DRAFT} --per-request-spec-decode-metrics summary",
            "--per-request-spec-decode-metrics: not in vLLM 0.28.0; it came with 0.29.0",
        ),
        ("0.32.0", "--per-request-spec-decode-metrics summary", "vLLM refuses it without speculation"),
    ],
)
def test_what_cannot_work_is_refused_with_reason_and_remedy(release, arguments, message):
    assert message in refusal(release, f"--model M {arguments}")


@pytest.mark.parametrize(
    ("release", "arguments"),
    [
        ("0.9.2", f"{DRAFT} --speculative-disable-by-batch-size 32"),
        ("0.7.3", f"{NGRAM} --speculative-disable-by-batch-size 32"),
        ("0.11.0", f"{NGRAM} --data-parallel-size 2"),
        ("0.10.2", f"{NGRAM} --data-parallel-size 1"),
        ("0.9.2", f"{NGRAM} --pipeline-parallel-size 2"),
        ("0.29.0", f"{DRAFT} --per-request-spec-decode-metrics summary"),
        ("0.11.1", "--spec-method suffix"),
        ("0.32.0", "--spec-method mtp --spec-model head"),
        ("0.32.0", f"{DRAFT} -sc.use_local_argmax_reduction true"),
        ("0.32.0", f"{DRAFT} -sc.draft_tensor_parallel_size 4 -tp 4"),
        ("0.9.2", f"{DRAFT} --spec-decoding-acceptance-method typical_acceptance_sampler"),
        ("0.40.0", f"{DRAFT} -sc.key_of_the_future 1"),
        ("0.40.0", "--spec-method method_of_the_future --spec-tokens 3"),
    ],
)
def test_what_works_is_not_refused(release, arguments):
    assert at(release, f"--model M {arguments}").speculation is not None


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("[]", "a list of [first batch size, last batch size, K] is needed"),
        ("{}", "a list of [first batch size, last batch size, K] is needed"),
        ("[[1, 4]]", "not [1, 4]"),
        ("[[4, 1, 3]]", "not [4, 1, 3]"),
        ("[[1, 4, -1]]", "not [1, 4, -1]"),
        ("[[0, 4, 1]]", "not [0, 4, 1]"),
        ('[[1, 4, "3"]]', 'not [1, 4, "3"]'),
        ("[[2, 4, 3]]", "it must start at batch size 1, not 2"),
        ("[[1, 4, 3], [4, 8, 1]]", "[1, 4, 3] and [4, 8, 1] overlap"),
    ],
)
def test_a_bad_schedule_is_refused_before_the_engine_finds_out(schedule, message):
    text = f"--model M {DRAFT} -sc '{{\"num_speculative_tokens_per_batch_size\": {schedule}}}'"
    assert message in refusal("0.32.0", text)


@pytest.mark.parametrize("schedule", ["[[1, 4, 3]]", "[[1, 4, 3], [9, 12, 0]]", "[[5, 8, 0], [1, 4, 3]]"])
def test_a_good_schedule_passes(schedule):
    text = f"--model M {DRAFT} -sc '{{\"num_speculative_tokens_per_batch_size\": {schedule}}}'"
    assert config("0.32.0", text)["num_speculative_tokens_per_batch_size"] == json.loads(schedule)


@pytest.mark.parametrize(
    ("draft", "method"),
    [
        ("meta-llama/Llama-3.2-1B-Instruct", "draft_model"),
        ("yuhuili/EAGLE-LLaMA3-Instruct-8B", "eagle"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3"),
        ("AngelSlim/Qwen3-8B_eagle3", "eagle3"),
        ("z-lab/Qwen3-8B-DFlash", "dflash"),
        ("deepseek-ai/dspark_qwen3_8b_block7", "dspark"),
        ("abhigoyal/vllm-medusa-vicuna-7b-v1.3", "medusa"),
        ("mypackage.proposers.Mine", "custom_class"),
        ("M", "mtp"),
    ],
)
def test_the_method_is_found_out_from_the_draft(draft, method):
    plan = at("0.32.0", f"--model M --speculative-model {draft} --num-speculative-tokens 3").speculation
    assert plan is not None
    assert plan.method == method


@pytest.mark.parametrize("method", ["medusa", "mlp_speculator", "deepseek_mtp"])
def test_a_draft_in_a_folder_is_asked_itself(tmp_path: Path, method):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": method}))
    plan = at("0.9.2", f"--model M --speculative-model {tmp_path} --num-speculative-tokens 1").speculation
    assert plan is not None
    assert plan.method == method


def test_speculation_in_a_config_file_is_left_there(tmp_path: Path):
    file = tmp_path / "serve.yaml"
    file.write_text("model: M\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n")
    translation = at("0.32.0", f"--config {file}")
    assert translation.arguments == ("--config", str(file))
    assert translation.speculation is not None
    assert translation.speculation.method == "ngram"


def test_speculation_in_a_config_file_that_needs_other_words_has_to_move(tmp_path: Path):
    file = tmp_path / "serve.yaml"
    file.write_text("model: M\nspeculative-model: D\nnum-speculative-tokens: 5\n")
    assert refusal("0.32.0", f"--config {file}") == (
        f"{file}: what it says about speculation has to be rewritten for vLLM 0.32.0: move it to the command line, "
        "where specwatch can do that"
    )
