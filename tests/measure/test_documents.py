"""Documents from JSONL files: what is in them, and one clear message for what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.measure import documents
from specwatch.measure.prompt_sets import BUILT_IN


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.jsonl"


def written(file: Path, *entries: object) -> str:
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return f"mine={file}"


def test_prompts_and_chats_with_or_without_their_completions(file):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    plain, answered, talk = documents.read(
        [written(file, {"prompt": "a"}, {"prompt": "b", "completion": "c"}, {"messages": chat, "id": 7})]
    )
    assert (plain.prompt, plain.completion, plain.domain) == ("a", None, "mine")
    assert answered.completion == "c"
    assert talk.messages == (("system", "Be brief."), ("user", "Why?"))


def test_a_place_names_file_and_line(file):
    file.write_text('{"prompt": "a"}\n\n{"prompt": "b"}\n')
    assert [document.place for document in documents.read([f"mine={file}"])] == [f"{file}:1", f"{file}:3"]


def test_a_digest_is_of_what_is_measured_and_not_of_where_it_stands(file, tmp_path):
    (first,) = documents.read([written(file, {"prompt": "a"})])
    _, moved = documents.read([written(tmp_path / "other.jsonl", {"prompt": "b"}, {"prompt": "a"})])
    (other,) = documents.read([f"other={file}"])
    assert first.digest == moved.digest != other.digest


def test_sets_come_built_in_and_can_be_cut(file):
    assert {document.domain for document in documents.read(BUILT_IN)} == set(BUILT_IN)
    assert len(documents.read(["code"], limit=3)) == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not JSON", ":1: no JSON"),
        ('"a text"', ":1: "),
        ('{"text": "a"}', '"prompt"'),
        ('{"prompt": ""}', '"prompt"'),
        ('{"prompt": 3}', '"prompt"'),
        ('{"messages": []}', "messages"),
        ('{"messages": [{"role": "user"}]}', "contents must be texts"),
        ('{"messages": [{"role": "user", "content": [1]}]}', "contents must be texts"),
        ('{"prompt": "a", "completion": 3}', '"completion" must be a text'),
        ("", "holds no documents"),
        ("[" * 100_000, ":1: no JSON"),
    ],
)
def test_a_line_that_is_no_document_is_named(file, line, told):
    file.write_text(line)
    with pytest.raises(InputError) as refused:
        documents.read([f"mine={file}"])
    assert str(file) in str(refused.value)
    assert told in str(refused.value)


def test_a_file_that_is_not_there_or_is_no_text_is_named(file):
    with pytest.raises(InputError, match="no such file"):
        documents.read([f"mine={file}"])
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        documents.read([f"mine={file}"])


@pytest.mark.parametrize(
    ("domains", "told"),
    [([], "no documents"), (["poems"], "built in are"), (["a b=x"], "a name of letters"), (["code", "code"], "twice")],
)
def test_names_that_mean_nothing_are_refused(domains, told):
    with pytest.raises(InputError, match=told):
        documents.read(domains)
