"""Vocabularies from every kind of file that tokenizers come in, written by hand."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from specwatch.vllm.preflight.models import Model, UnreadableModel
from specwatch.vllm.preflight.tokenizers import NoVocabulary, Vocabulary, vocabulary
from tests.support.models import SPECIAL, WORDS, model, write


def read(folder: Path) -> Vocabulary:
    return vocabulary(Model("m", folder, {}, own_folder=True))


def piece(text: str) -> bytes:
    """A SentencePiece piece: text, score, kind."""
    encoded = text.encode()
    inside = b"\x0a" + bytes([len(encoded)]) + encoded + b"\x15\x00\x00\x80\xbf" + b"\x18\x01"
    return b"\x0a" + bytes([len(inside)]) + inside


def ranked(*tokens: bytes) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), number) for number, token in enumerate(tokens))


def test_a_fast_tokenizer_has_its_vocabulary_and_added_tokens_in_one_file(tmp_path: Path):
    model(tmp_path)
    found = read(tmp_path)
    assert found.ids == {word: number for number, word in enumerate(WORDS)}
    assert found.added == set(SPECIAL.values())
    assert found.roles == {"BOS": "<s>", "EOS": "</s>", "PAD": "<pad>"}
    assert found.tokens[3] == "Ġthe"


def test_a_unigram_vocabulary_is_numbered_by_its_order(tmp_path: Path):
    write(tmp_path / "tokenizer.json", {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["▁the", -1.5]]}})
    assert read(tmp_path).ids == {"<unk>": 0, "▁the": 1}


def test_a_slow_tokenizer_without_tokenizer_json_is_read_from_its_sentencepiece_model(tmp_path: Path):
    trainer = b"\x12\x03\x20\x80\x01"
    (tmp_path / "tokenizer.model").write_bytes(piece("<unk>") + piece("▁the") + piece("▁été") + trainer)
    write(
        tmp_path / "tokenizer_config.json", {"unk_token": "<unk>", "added_tokens_decoder": {"3": {"content": "<im>"}}}
    )
    found = read(tmp_path)
    assert found.ids == {"<unk>": 0, "▁the": 1, "▁été": 2, "<im>": 3}
    assert found.added == {"<im>"}


def test_a_slow_tokenizer_of_bytes_is_read_from_vocab_json(tmp_path: Path):
    write(tmp_path / "vocab.json", {"Ġthe": 1, "a": 0})
    write(tmp_path / "added_tokens.json", {"<|im_end|>": 2})
    assert read(tmp_path).ids == {"a": 0, "Ġthe": 1, "<|im_end|>": 2}


def test_a_vocabulary_of_lines_is_numbered_by_them(tmp_path: Path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n##ing\n")
    assert read(tmp_path).ids == {"[PAD]": 0, "##ing": 1}


@pytest.mark.parametrize("name", ["qwen.tiktoken", "tokenizer.model"])
def test_tiktoken_files_are_written_as_hugging_face_writes_bytes(tmp_path: Path, name):
    (tmp_path / name).write_bytes(ranked(b"!", b" the", "é".encode(), b"\n"))
    assert read(tmp_path).ids == {"!": 0, "Ġthe": 1, "Ã©": 2, "Ċ": 3}


def test_tekken_numbers_its_special_tokens_first(tmp_path: Path):
    words = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode()} for rank, token in enumerate((b"a", b" b"))
    ]
    config = {"default_num_special_tokens": 2, "default_vocab_size": 3}
    special = [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "<s>"}]
    write(tmp_path / "tekken.json", {"config": config, "vocab": words, "special_tokens": special})
    assert read(tmp_path).ids == {"a": 2, "<unk>": 0, "<s>": 1}


def test_tokens_that_begin_and_end_are_found_by_number_where_no_tokenizer_names_them(tmp_path: Path):
    write(tmp_path / "vocab.json", {"<s>": 0, "</s>": 1})
    config = {"bos_token_id": 0, "eos_token_id": [1, 7], "pad_token_id": None}
    assert vocabulary(Model("m", tmp_path, config, True)).roles == {"BOS": "<s>", "EOS": "</s>"}


def test_a_role_may_be_written_as_an_object(tmp_path: Path):
    write(tmp_path / "vocab.json", {"<s>": 0, "</s>": 1})
    write(tmp_path / "special_tokens_map.json", {"bos_token": {"content": "<s>", "lstrip": False}, "eos_token": "none"})
    assert read(tmp_path).roles == {"BOS": "<s>"}


def test_without_any_such_file_it_is_said_that_nothing_can_be_compared(tmp_path: Path):
    write(tmp_path / "tokenizer_config.json", SPECIAL)
    (tmp_path / "tokenization_own.py").touch()
    with pytest.raises(NoVocabulary, match=r"has none of tokenizer\.json, .* its vocabulary cannot be compared"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", b"{"),
        ("tokenizer.json", b"[]"),
        ("tokenizer.json", b'{"model": {"vocab": {"a": "b"}}}'),
        ("tokenizer.json", b'{"model": ' + b"[" * 100_000),
        ("tekken.json", b"{}"),
        ("tekken.json", b'{"config": {"default_num_special_tokens": 1, "default_vocab_size": 9}, "vocab": [1]}'),
        ("tokenizer.model", b""),
        ("tokenizer.model", b"\x0a\xff"),
        ("tokenizer.model", b"\xff" * 40),
        ("tokenizer.model", piece("a") + b"\x0a\x09"),
        ("tokenizer.model", b"\x0b\x00"),
        ("own.tiktoken", b"not-base64 1"),
        ("own.tiktoken", b"YQ=="),
        ("vocab.json", b"[1]"),
        ("vocab.txt", b"\xff"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableModel, match="is no tokenizer that can be read") as raised:
        read(tmp_path)
    assert str(tmp_path / name) in str(raised.value)
