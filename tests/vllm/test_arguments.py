"""Reading a vLLM command line, whichever release it was written for."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.vllm.arguments import option, present, read
from specwatch.vllm.speculation import CommandLine, Speculation

ARTICLE = (
    "--model meta-llama/Meta-Llama-3.1-70B-Instruct --tensor-parallel-size 4 "
    "--speculative-model meta-llama/Llama-3.2-1B-Instruct --num-speculative-tokens 5 --speculative-max-model-len 8192 "
    "--gpu-memory-utilization 0.92 --max-num-seqs 64 --port 8000 --host 0.0.0.0"
)
DRAFT = Speculation(None, "D", 5)
NGRAM = Speculation("ngram", None, 3)


def line(text: str) -> CommandLine:
    return read(shlex.split(text))


def test_the_command_line_of_most_articles_is_understood():
    read_line = line(ARTICLE)
    assert read_line.speculation == Speculation(None, "meta-llama/Llama-3.2-1B-Instruct", 5, {"max_model_len": 8192})
    assert shlex.join(read_line.rest) == (
        "--model meta-llama/Meta-Llama-3.1-70B-Instruct --tensor-parallel-size 4 --gpu-memory-utilization 0.92 "
        "--max-num-seqs 64 --port 8000 --host 0.0.0.0"
    )
    assert shlex.join(read_line.words) == ARTICLE


@pytest.mark.parametrize(
    ("text", "speculation"),
    [
        ("--speculative-model D --num-speculative-tokens 5", DRAFT),
        ("--speculative_model D --num_speculative_tokens 5", DRAFT),
        ("--speculative-model=D --num-speculative-tokens=5", DRAFT),
        ("--speculative_model=D --num_speculative-tokens=5", DRAFT),
        ('--speculative-config \'{"model": "D", "num_speculative_tokens": 5}\'', DRAFT),
        ('--speculative_config=\'{"model": "D", "num_speculative_tokens": 5}\'', DRAFT),
        ('-sc \'{"num_speculative_tokens": 5, "model": "D"}\'', DRAFT),
        ("--speculative-config.model D --speculative_config.num_speculative_tokens=5", DRAFT),
        ("--spec-model D --spec-tokens 5", DRAFT),
        ("--spec_model=D --spec_tokens=5", DRAFT),
        ("--spec-model D --speculative-config '{\"num_speculative_tokens\": 5}'", DRAFT),
        ("--speculative-model '[ngram]' --num-speculative-tokens 3", NGRAM),
        ('-sc \'{"model": "[ngram]", "num_speculative_tokens": 3}\'', NGRAM),
        ('-sc \'{"method": "[ngram]", "num_speculative_tokens": 3}\'', NGRAM),
        ("--spec-method ngram --spec-tokens 3", NGRAM),
        (
            "--speculative-model D --num-speculative-tokens 5 -spec-draft-tp 1 --speculative-disable-by-batch-size 32",
            Speculation(None, "D", 5, {"draft_tensor_parallel_size": 1, "disable_by_batch_size": 32}),
        ),
        (
            "--speculative-model D --num-speculative-tokens 5 --speculative-disable-mqa-scorer "
            "--typical-acceptance-sampler-posterior-alpha 0.3 --disable-logprobs-during-spec-decoding",
            Speculation(None, "D", 5, {"disable_mqa_scorer": True, "posterior_alpha": 0.3, "disable_logprobs": True}),
        ),
        (
            "--speculative-model D --disable-logprobs-during-spec-decoding False --num-speculative-tokens 5",
            Speculation(None, "D", 5, {"disable_logprobs": False}),
        ),
        (
            "-sc.method draft_model -sc.model D -sc.num_speculative_tokens 5 -sc.draft_load_config.load_format dummy",
            Speculation("draft_model", "D", 5, {"draft_load_config": {"load_format": "dummy"}}),
        ),
    ],
)
def test_every_way_to_write_speculation_is_read(text, speculation):
    assert line(f"--model M {text} --port 1").speculation == speculation
    assert line(f"--model M {text} --port 1").rest == ("--model", "M", "--port", "1")


@pytest.mark.parametrize("program", ["", "vllm serve", "serve", "python3 -m vllm.entrypoints.openai.api_server"])
def test_a_line_pasted_with_its_program_is_read_without_it(program):
    assert line(f"{program} M --port 1").words == ("--model", "M", "--port", "1")


def test_a_model_in_first_place_becomes_a_flag_and_that_is_said():
    read_line = line("M --port 1")
    assert read_line.words == ("--model", "M", "--port", "1")
    assert ["M is written as --model" in str(note) for note in read_line.notes] == [True]


def test_a_command_line_without_speculation_asks_for_none():
    read_line = line("--model M --specialize-active-lora --served-model-name a b -tp 2")
    assert read_line.speculation is None
    assert read_line.words == read_line.rest


def test_the_old_block_manager_alone_is_no_speculation():
    assert line("--model M --use-v2-block-manager").speculation is None


def test_one_value_given_in_two_styles_counts_once():
    assert line("--model M --spec-tokens 5 --num-speculative-tokens 5 --spec-model D").speculation == DRAFT


def test_the_last_of_one_flag_counts_and_that_is_said():
    read_line = line("--model M --speculative-model D --num-speculative-tokens 4 --num-speculative-tokens 5")
    assert read_line.speculation == DRAFT
    assert [str(note) for note in read_line.notes] == [
        "--num-speculative-tokens is given twice: 5 counts, the last one"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "--speculative-model D --num-speculative-tokens 5 --spec-tokens 4",
            "num_speculative_tokens is given twice: 5 by --num-speculative-tokens and 4 by --spec-tokens",
        ),
        (
            '--speculative-model D --speculative-config \'{"model": "E"}\'',
            "model is given twice: D by --speculative-model and E by --speculative-config",
        ),
        ('-sc \'{"model": "D", "model": "E"}\'', "--speculative-config: model is given twice: D and E"),
        ('-sc \'{"model": "D"}\' -sc \'{"num_speculative_tokens": 3}\'', "--speculative-config is given twice"),
        ("-sc '{model: D}'", "--speculative-config: no JSON at character 2"),
        ("-sc '{\"model\": True}'", "--speculative-config: no JSON at character 11"),
        ("-sc '[1]'", "--speculative-config: a JSON object is needed"),
        ("-sc '{\"model\": 3}'", "model: a name is needed, not 3"),
        ('-sc \'{"model": "D", "num_speculative_tokens": "5"}\'', "num_speculative_tokens: a whole number is needed"),
        ('-sc \'{"model": "D", "num_speculative_tokens": 5.0}\'', "num_speculative_tokens: a whole number is needed"),
        ('-sc \'{"model": "D", "num_speculative_tokens": true}\'', "num_speculative_tokens: a whole number is needed"),
        ("--num-speculative-tokens five", "--num-speculative-tokens five: a whole number is needed"),
        ("--num-speculative-tokens", "--num-speculative-tokens: a whole number is missing behind it"),
        ("--num-speculative-tokens --port 1", "--num-speculative-tokens: a whole number is missing behind it"),
        ("--speculative-config.tags+ a,b", "write lists and nested keys as JSON"),
        ("--speculative-modle D", "--speculative-model is the nearest that it has"),
        ("--num-spec-tokens 5", "--spec-tokens is the nearest that it has"),
        ("N --model O", "two models: N in first place and --model O"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text, message):
    with pytest.raises(InputError) as refusal:
        line(text if text.startswith("N ") else f"--model M {text}")
    assert message in str(refusal.value)


def test_options_are_found_in_every_spelling_and_the_last_one_counts():
    words = shlex.split("--port 1 --served_model_name=x --port=2 -tp 4")
    assert option(words, "--port") == "2"
    assert option(words, "--served-model-name") == "x"
    assert option(words, "--tensor-parallel-size", "-tp") == "4"
    assert option(words, "--host") is None
    assert present(words, "--served-model-name")
    assert not present(words, "--uds")


def test_speculation_in_a_config_file_is_seen(tmp_path: Path):
    file = tmp_path / "serve.yaml"
    file.write_text("model: M\nspeculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n")
    read_line = line(f"--config {file}")
    assert read_line.speculation == NGRAM
    assert read_line.file == str(file)
    assert read_line.words == ("--config", str(file))


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("spec-tokens: 3\n", "--spec-method ngram", "keep one of them"),
        ("- a\n- b\n", "", "a mapping of option to value is needed"),
        ("a: [\n", "", "cannot be read"),
        (None, "", "cannot be read"),
    ],
)
def test_a_config_file_that_cannot_be_used_is_refused_by_its_path(tmp_path: Path, content, arguments, message):
    file = tmp_path / "serve.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError) as refusal:
        line(f"--model M --config {file} {arguments}")
    assert message in str(refusal.value)
    assert str(file) in str(refusal.value)
