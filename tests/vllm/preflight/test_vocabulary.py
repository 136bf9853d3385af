"""Whether a draft's numbers mean the target's tokens, on small vocabularies written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specwatch.vllm.preflight.comparison import shown
from specwatch.vllm.preflight.findings import Finding, Severity
from specwatch.vllm.preflight.run import examine
from tests.support.models import LLAMA, SPECIAL, WORDS, codes, found, model, planned

SWAPPED = (*WORDS[:3], "Ġcat", "Ġthe", *WORDS[5:])
QUIET = {"sampling", "gpu-unknown", "memory-unknown"}
"""What is said of every pair of models without weights, on a machine without a GPU."""


def compared(tmp_path: Path, draft: dict[str, Any], release: str = "0.32.0", **plan: Any) -> list[Finding]:
    """What is found beside a target with WORDS; ``draft`` is how the draft's folder is made."""
    target = model(tmp_path / "target")
    plan = planned(target, model(tmp_path / "draft", **draft), release=release, **plan)
    return [finding for finding in examine(plan).findings if finding.code not in QUIET]


def test_equal_vocabularies_are_not_remarked(tmp_path: Path):
    assert compared(tmp_path, {}) == []


def test_the_same_tokenizer_in_another_form_is_equal(tmp_path: Path):
    target, draft = Path(model(tmp_path / "target")), Path(model(tmp_path / "draft"))
    (draft / "tokenizer.json").write_text((target / "tokenizer.json").read_text().replace(" ", "  "))
    assert set(codes(examine(planned(str(target), str(draft))).findings)) <= QUIET


def test_as_many_tokens_in_another_order_are_refused_although_vllm_would_start(tmp_path: Path):
    (refused,) = compared(tmp_path, {"words": SWAPPED})
    assert (refused.code, refused.severity, refused.forcible) == ("vocabulary-differs", Severity.REFUSAL, True)
    assert "2 of 8 numbers mean different tokens" in refused.text
    assert "number 3 is “ the” for the target, “ cat” for the draft" in refused.text
    assert "so vLLM would start" in refused.text
    assert 'let vLLM translate: "use_heterogeneous_vocab": true' in refused.remedy


def test_differences_between_words_are_shown_before_those_between_signs(tmp_path: Path):
    special, words = [*SPECIAL.values()], ["!", "Ġthe", "?", "Ġcats"]
    target = model(tmp_path / "t", words=[*special, *words])
    draft = model(tmp_path / "d", words=[*special, *reversed(words)])
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    assert "accepted: number 3 is “!” for the target, “ cats” for the draft; number 4 is" in refused.text
    draft = model(tmp_path / "d", words=[*special, "?", "Ġcats", "!", "Ġthe"])
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    assert "accepted: number 4 is “ the” for the target, “ cats” for the draft; number 6 is" in refused.text


def test_before_0_25_no_translation_is_offered(tmp_path: Path):
    (refused,) = compared(tmp_path, {"words": SWAPPED}, release="0.24.0")
    assert "From 0.25.0 on vLLM can translate (use_heterogeneous_vocab); 0.24.0 cannot." in refused.remedy


def test_another_number_of_tokens_is_refused_in_words_for_a_newcomer(tmp_path: Path):
    target = model(tmp_path / "Mistral-7B", LLAMA | {"vocab_size": 32768})
    other = ("<|begin|>", "<|end|>", "<|pad|>", "!", '"', "#", "$", "%", "&")
    special = dict(zip(SPECIAL, other, strict=False))
    draft = model(tmp_path / "Llama-3.2-1B", LLAMA | {"vocab_size": 128256}, words=other, special=special)
    refused = found(examine(planned(target, draft)).findings, "vocabulary-differs")
    assert not refused.forcible
    assert refused.text == (
        f"{draft} cannot draft for {target}: they split text into different tokens, 128256 of them against 32768. A "
        "draft proposes tokens by number, and its numbers mean other words to the target: number 3 is “ the” for the "
        'target, “!” for the draft; number 4 is “ cat” for the target, “"” for the draft; number 5 is “ sat” for the '
        "target, “#” for the draft."
    )
    assert f"Take a small model of the same family as {target}, made with the same tokenizer" in refused.remedy


def test_one_tokenizer_with_room_for_more_tokens_is_refused_as_vllm_does_and_called_so(tmp_path: Path):
    (refused,) = compared(tmp_path, {"config": LLAMA | {"vocab_size": 16}})
    assert (refused.code, refused.forcible) == ("vocabulary-size", False)
    assert "have the same tokenizer, but room for 8 and 16 tokens" in refused.text


def test_a_begin_of_text_under_another_number_is_refused(tmp_path: Path):
    (refused,) = compared(tmp_path, {"words": ("</s>", "<s>", *WORDS[2:])})
    assert (refused.code, refused.forcible) == ("vocabulary-differs", True)
    assert "number 0 is “<s>” for the target, “</s>” for the draft" in refused.text


def test_another_token_that_ends_texts_is_a_warning(tmp_path: Path):
    (warned,) = compared(tmp_path, {"special": SPECIAL | {"eos_token": "<pad>"}})
    assert (warned.code, warned.severity) == ("special-tokens-differ", Severity.WARNING)
    assert "EOS is “</s>” for the target, “<pad>” for the draft" in warned.text
    assert "base model" in warned.remedy


@pytest.mark.parametrize(
    "special", [SPECIAL | {"pad_token": "</s>"}, {k: SPECIAL[k] for k in ("bos_token", "eos_token")}]
)
def test_another_padding_is_a_note(tmp_path: Path, special):
    (noted,) = [f for f in compared(tmp_path, {"special": special}) if f.code == "special-tokens-differ"]
    assert noted.severity is Severity.NOTE


def test_a_reserved_token_of_another_name_is_a_warning_that_shows_it(tmp_path: Path):
    extra = SPECIAL | {"tool_token": "<tool>"}
    target = model(tmp_path / "target", words=(*WORDS, "<tool>"), special=extra)
    draft = model(tmp_path / "draft", words=(*WORDS, "<image>"), special=SPECIAL | {"image_token": "<image>"})
    warned = found(examine(planned(target, draft)).findings, "added-tokens-differ")
    assert warned.severity is Severity.WARNING
    assert "number 8 is “<tool>” for the target, “<image>” for the draft" in warned.text


def test_a_draft_that_lacks_added_tokens_of_the_target_is_a_warning(tmp_path: Path):
    target = model(tmp_path / "t", words=(*WORDS, "<im>"), special=SPECIAL | {"im": "<im>"})
    draft = model(tmp_path / "d", LLAMA | {"vocab_size": 9})
    warned = found(examine(planned(target, draft)).findings, "added-tokens-differ")
    assert "number 8 is “<im>” for the target, no token for the draft" in warned.text


def test_a_vocabulary_that_cannot_be_read_is_a_note_and_sizes_are_compared_all_the_same(tmp_path: Path):
    told = compared(tmp_path, {"words": None, "config": LLAMA | {"vocab_size": 9}})
    assert codes(told) == ["vocabulary-differs", "vocabulary-unread"]
    assert "cannot be compared" in told[1].text


def test_the_tokenizer_that_the_command_line_names_is_the_targets(tmp_path: Path):
    other = model(tmp_path / "tokenizer", words=SWAPPED)
    assert codes(compared(tmp_path, {"words": SWAPPED}, words=f"--tokenizer {other}")) == []


def test_with_translation_the_tokens_in_common_are_counted_and_nothing_is_refused(tmp_path: Path):
    words = (*WORDS[:3], *(f"▁w{number}" for number in range(200)))
    config = LLAMA | {"vocab_size": len(words)}
    target = model(tmp_path / "t", config, words=words)
    draft = model(tmp_path / "d", config, words=[word.replace("▁", "Ġ") for word in words[:150]])
    noted = found(
        examine(planned(target, draft, options={"use_heterogeneous_vocab": True})).findings, "heterogeneous-vocabulary"
    )
    assert noted.severity is Severity.NOTE
    assert "the draft can use 150 of its 150 tokens (100%)" in noted.text


def test_with_translation_too_few_tokens_in_common_are_a_warning(tmp_path: Path):
    (warned,) = compared(tmp_path, {"words": SWAPPED}, options={"use_heterogeneous_vocab": True})
    assert (warned.code, warned.severity) == ("heterogeneous-vocabulary", Severity.WARNING)


def test_translation_wants_greedy_drafts(tmp_path: Path):
    options = {"use_heterogeneous_vocab": True, "draft_sample_method": "probabilistic"}
    assert "heterogeneous-sampling" in codes(compared(tmp_path, {}, options=options))


def test_a_head_for_another_vocabulary_is_a_warning(tmp_path: Path):
    (warned,) = compared(tmp_path, {"config": LLAMA | {"vocab_size": 99}, "words": None}, method="eagle3")
    assert (warned.code, warned.severity) == ("head-vocabulary", Severity.WARNING)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("Ġthe", "“ the”"),
        ("▁the", "“ the”"),
        ("\x1b[2J", "“\\x1b[2J”"),
        ("-" * 40, f"“{'-' * 24}…”"),
        (None, "no token"),
    ],
)
def test_a_token_is_shown_as_text_that_a_terminal_does_not_obey(token, text):
    assert shown(token) == text
