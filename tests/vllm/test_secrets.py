"""No secret on a line that is shown."""

from __future__ import annotations

import shlex

import pytest

from specwatch.vllm.secrets import moved, secret_flags, shell_line


@pytest.mark.parametrize(
    "given",
    [
        "--api-key sk-1",
        "--api-key=sk-1",
        "--api_key sk-1",
        "--api_key=sk-1",
        "--api-key sk-1 sk-2",
        "--api-key=sk-1 sk-2",
    ],
)
def test_a_key_is_shown_as_the_variable_that_should_hold_it(given):
    words = shlex.split(f"vllm --port 1 {given} --model M")
    assert shell_line(words) == 'vllm --port 1 --api-key "$VLLM_API_KEY" --model M'
    assert secret_flags(words) == ["--api-key"]


def test_a_token_of_the_hub_is_hidden_too():
    assert shell_line(["--hf-token", "hf_1"]) == '--hf-token "$HF_TOKEN"'


def test_everything_else_is_shown_so_that_a_shell_reads_it_back():
    words = ["python", "-m", "x", "--speculative-config", '{"method": "ngram"}', "--seed", "-1", "it's"]
    assert shlex.split(shell_line(words)) == words
    assert secret_flags(words) == []


@pytest.mark.parametrize("given", ["--api-key sk-1", "--api-key=sk-1", "--api_key sk-1", "--api_key=sk-1"])
def test_a_single_key_moves_from_the_command_into_a_variable(given):
    words, variables = moved(shlex.split(f"vllm --port 1 {given} --model M"))
    assert words == ("vllm", "--port", "1", "--model", "M")
    assert variables == {"VLLM_API_KEY": "sk-1"}


def test_key_and_token_both_move():
    words, variables = moved(["--hf-token", "hf_1", "--api-key", "sk-1"])
    assert (words, variables) == ((), {"HF_TOKEN": "hf_1", "VLLM_API_KEY": "sk-1"})


@pytest.mark.parametrize("given", ["--api-key sk-1 sk-2", "--hf-token", "--model M --port 1", "--x --api-key", ""])
def test_what_a_variable_cannot_hold_stays(given):
    assert moved(shlex.split(given)) == (tuple(shlex.split(given)), {})
