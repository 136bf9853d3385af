"""No secret on a line that is shown."""

from __future__ import annotations

import shlex

import pytest

from specwatch.vllm.secrets import secret_flags, shell_line


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
