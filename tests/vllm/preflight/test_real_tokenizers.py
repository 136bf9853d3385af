"""Vocabularies of tokenizers that real libraries made, or that packages bring: read here as there."""

from __future__ import annotations

import importlib.util
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from specwatch.vllm.preflight.comparison import compare
from specwatch.vllm.preflight.findings import Severity
from specwatch.vllm.preflight.models import Model
from specwatch.vllm.preflight.run import examine
from specwatch.vllm.preflight.tokenizers import Vocabulary, vocabulary
from tests.support.models import LLAMA, codes, found, planned, write

pytestmark = pytest.mark.vllm

TEXT = [
    "def factorial(n): return 1 if n < 2 else n * factorial(n - 1)",
    "El modelo pequeño propone tokens y el grande los verifica todos a la vez.",
    '{"name": "draft", "accepted": true, "tokens": [1, 2, 3]}',
    "The cat sat on the mat while the dog slept by the door of the old house.",
] * 20
SPECIAL = ["<s>", "</s>", "<pad>"]


def read(folder: Path) -> Vocabulary:
    return vocabulary(Model("m", folder, {}, own_folder=True))


def fast(folder: Path, size: int = 400, special: list[str] | None = None, words: list[str] | None = None) -> str:
    """A byte-level BPE tokenizer, trained and saved as transformers does it, with a configuration beside it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special or SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(words or TEXT, trainer)
    ends = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends)
    wrapped.save_pretrained(folder)
    write(folder / "config.json", {**LLAMA, "vocab_size": len(wrapped)})
    return str(folder)


def slow(folder: Path, size: int = 90) -> Any:
    """A SentencePiece model, as the slow tokenizers of Llama 2 and Mistral have it; no tokenizer.json."""
    import sentencepiece

    folder.mkdir()
    (folder / "text").write_text("\n".join(TEXT))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=size,
        model_type="bpe",
        byte_fallback=False,
        character_coverage=1.0,
        pad_id=3,
        minloglevel=2,
    )
    write(folder / "config.json", {**LLAMA, "vocab_size": size})
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))


def test_equal_tokenizers_are_equal(tmp_path: Path):
    target, draft = fast(tmp_path / "t"), fast(tmp_path / "d")
    assert compare(read(tmp_path / "t"), read(tmp_path / "d")).equal
    assert not any(
        code.startswith(("vocab", "special", "added")) for code in codes(examine(planned(target, draft)).findings)
    )


def test_a_fast_tokenizer_has_the_numbers_that_transformers_gives(tmp_path: Path):
    from transformers import AutoTokenizer

    fast(tmp_path / "t")
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path / "t"), read(tmp_path / "t")
    assert ours.ids == theirs.get_vocab()
    numbers = {role: ours.ids[token] for role, token in ours.roles.items()}
    assert numbers == {"BOS": theirs.bos_token_id, "EOS": theirs.eos_token_id, "PAD": theirs.pad_token_id}


def test_as_many_tokens_permuted_are_refused(tmp_path: Path):
    """Two vocabularies of one size, of which vLLM sees no more than that."""
    import json

    target, draft = fast(tmp_path / "t"), fast(tmp_path / "d")
    file = tmp_path / "d" / "tokenizer.json"
    content = json.loads(file.read_text())
    words = content["model"]["vocab"]
    ordinary = [number for word, number in words.items() if word not in SPECIAL]
    mixed = dict(zip(ordinary, random.Random(7).sample(ordinary, len(ordinary)), strict=True))
    content["model"]["vocab"] = {word: mixed.get(number, number) for word, number in words.items()}
    file.write_text(json.dumps(content))
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    assert refused.forcible
    assert "so vLLM would start" in refused.text
    assert len(compare(read(tmp_path / "t"), read(tmp_path / "d")).ordinary) >= len(ordinary) - 5


def test_tokenizers_of_other_text_are_refused(tmp_path: Path):
    target = fast(tmp_path / "t")
    draft = fast(
        tmp_path / "d", words=["zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich"] * 20, size=300
    )
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    sizes = [len(read(tmp_path / name).ids) for name in ("d", "t")]
    assert "{} of them against {}".format(*sizes) in refused.text


def test_special_tokens_under_other_numbers_are_refused(tmp_path: Path):
    target, draft = fast(tmp_path / "t"), fast(tmp_path / "d", special=["</s>", "<s>", "<pad>"])
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    assert "number 0 is “<s>” for the target, “</s>” for the draft" in refused.text


def test_a_slow_tokenizer_without_tokenizer_json_has_the_numbers_that_sentencepiece_gives(tmp_path: Path):
    processor = slow(tmp_path / "t")
    assert not (tmp_path / "t" / "tokenizer.json").exists()
    assert read(tmp_path / "t").ids == {processor.id_to_piece(n): n for n in range(processor.get_piece_size())}


def test_slow_tokenizers_are_compared_like_others(tmp_path: Path):
    slow(tmp_path / "t")
    slow(tmp_path / "d", size=80)
    shutil.copytree(tmp_path / "t", tmp_path / "same")
    equal, other = (examine(planned(str(tmp_path / "t"), str(tmp_path / name))).findings for name in ("same", "d"))
    assert not any(finding.severity is Severity.REFUSAL for finding in equal)
    assert "80 of them against 90" in found(other, "vocabulary-differs").text


def test_a_slow_tokenizer_and_the_fast_one_made_from_it_are_equal(tmp_path: Path):
    from transformers import AutoTokenizer

    slow(tmp_path / "slow")
    write(tmp_path / "slow" / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"})
    AutoTokenizer.from_pretrained(tmp_path / "slow").save_pretrained(tmp_path / "fast")
    assert (tmp_path / "fast" / "tokenizer.json").exists()
    assert not compare(read(tmp_path / "fast"), read(tmp_path / "slow")).ordinary
    assert dict(read(tmp_path / "fast").ids) == dict(read(tmp_path / "slow").ids)


def test_the_tekken_vocabularies_that_mistral_ships_are_read_as_mistrals_own_library_reads_them(tmp_path: Path):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    package = importlib.util.find_spec("mistral_common")
    assert package is not None
    assert package.submodule_search_locations is not None
    data = Path(package.submodule_search_locations[0], "data")
    for name in ("tekken_240718.json", "tekken_240911.json"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tekken.json").symlink_to(data / name)
        theirs, ours = Tekkenizer.from_file(data / name), read(folder)
        assert max(ours.ids.values()) + 1 == theirs.n_words
        for text in ("cat", "the", "a"):
            (number,) = theirs.encode(text, bos=False, eos=False)
            assert ours.tokens[number] == text
    # Nemo's and Pixtral's: one vocabulary under two names.
    assert not compare(read(tmp_path / "tekken_240718.json"), read(tmp_path / "tekken_240911.json")).ordinary
