from __future__ import annotations

import json

import pytest

from specwatch.errors import InputError
from specwatch.lint import documents
from specwatch.lint.documents import Mapping, Scalar, Text, read, walk

FORMS = {
    "plain": "a: vllm:x / vllm:x # no\n",
    "quoted": 'a: "vllm:x / vllm:x"\n',
    "single": "a: 'vllm:x / vllm:x'\n",
    "literal": "é: 😀\na: | # yes\n  vllm:x\n  / vllm:x\n",
    "folded": "a: >-\n  vllm:x /\n\n  vllm:x\n",
    "continued": "a: vllm:x\n  / vllm:x\n",
    "marked": '\ufeff{"a": "vllm:x \\n/ vllm:x"}',
    "windows": "b: 1\r\na: |\r\n  vllm:x\r\n  / vllm:x\r\n",
    "tabs": '{\n\t"b": [1, null, true],\n\t"a": "\\u00e9 vllm:x / vllm:x"\n}',
}


def scalar(text: str, key: str) -> Scalar:
    document = read(text)[0]
    assert isinstance(document, Mapping)
    node = document.get(key)
    assert isinstance(node, Scalar)
    return node


@pytest.mark.parametrize("form", FORMS)
def test_a_word_of_a_value_is_found_where_it_is_written_however_that_is(form: str):
    text, value = FORMS[form], scalar(FORMS[form], "a")
    second = value.value.rindex("vllm:x")
    span = Text(text).span(value, second, second + 6)
    assert span == (text.rindex("vllm:x"), text.rindex("vllm:x") + 6)


@pytest.mark.parametrize("text", ['{"a": "vllm\\u003ax"}', 'a: "vllm\\x3ax"\n'])
def test_a_word_that_is_written_otherwise_has_no_place(text: str):
    assert Text(text).span(scalar(text, "a"), 0, 6) is None


def test_lines_and_columns_count_from_one():
    text = Text("ab\ncd\n")
    assert [text.place(offset) for offset in (0, 1, 3, 4)] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_documents_merge_keys_and_aliases_are_followed():
    first, second = read("base: &b {x: 1, y: 2}\nmade: {<<: *b, y: 3}\n---\nlist: [{z: 4}]\n")
    assert isinstance(first, Mapping)
    assert isinstance(second, Mapping)
    assert [first.text("made", key) for key in "xyz"] == ["1", "3", ""]
    assert [item.text("z") for item in second.items("list") if isinstance(item, Mapping)] == ["4"]


def test_a_flow_mapping_of_yaml_is_read_although_it_begins_like_json():
    assert scalar("{a: b, c: [d]}", "a").value == "b"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2: not valid YAML"),
        ("a: b\n  c: d\n", "line 2: not valid YAML"),
        ("a: \x00", "U\\+0000"),
        ('{"a": 1,}', None),
        ('{"a": 1, "b"}\n: {', "neither JSON .line 1"),
        ("a: *b", "line 1: .b stands for nothing"),
        ("&a [*a]", "stands for nothing"),
        pytest.param("[" * 100_000, "nested too deeply", id="lists"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="mappings"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text: str, problem: str | None):
    if problem is None:
        assert read(text)
        return
    with pytest.raises(InputError, match=problem) as refusal:
        read(text)
    assert "\n" not in str(refusal.value)


def test_a_file_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "MOST_VALUES", 100)
    read(json.dumps(list(range(99))))
    for text in (json.dumps(list(range(100))), "\n".join(["- a"] * 100)):
        with pytest.raises(InputError, match="more than 100 values"):
            read(text)


def test_aliases_that_multiply_are_not_followed_without_end():
    lines = ["a: &a [1, 2]"]
    for below, name in zip("abcdefghij", "bcdefghijk", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]")
    with pytest.raises(InputError, match="aliases"):
        list(walk(read("\n".join(lines))[0]))
