"""Prompt sets: those that come along, and files."""

from __future__ import annotations

import pytest

from specwatch.errors import InputError
from specwatch.measure.prompt_sets import BUILT_IN, PromptSet, domain


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_set_has_different_prompts_for_three_repetitions_of_eight(name):
    assert len(set(domain(name).prompts)) == 24


def test_a_file_holds_a_prompt_a_line(tmp_path):
    (tmp_path / "own.jsonl").write_text('{"prompt": "a", "id": 7}\n\n"b\\u2028"\n')
    assert domain(f"own={tmp_path}/own.jsonl") == PromptSet("own", ("a", "b\u2028"))


def test_other_prompts_under_the_same_name_have_another_fingerprint():
    assert PromptSet("x", ("a", "b")).fingerprint != PromptSet("x", ("ab",)).fingerprint


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no prompts in it"),
        (b"{\n", "line 1: no JSON"),
        (b'"a"\n[1]\n', 'line 2: {"prompt": "…"} or a text in quotes is needed'),
        (b'{"prompt": ""}', "line 1: "),
        (b'{"text": "a"}', "line 1: "),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"[" * 100_000, "line 1: no JSON"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, content, problem):
    (tmp_path / "own.jsonl").write_bytes(content)
    with pytest.raises(InputError) as caught:
        domain(f"own={tmp_path}/own.jsonl")
    assert str(caught.value).startswith(f"--domain own={tmp_path}/own.jsonl")
    assert problem in str(caught.value)


def test_names_are_checked(tmp_path):
    with pytest.raises(InputError, match=r"built in are code, json, prose-es; your own are poems=FILE\.jsonl"):
        domain("poems")
    with pytest.raises(InputError, match="a name of letters"):
        domain("a b=x.jsonl")
    with pytest.raises(InputError, match="no such file"):
        domain(f"x={tmp_path}/none.jsonl")
