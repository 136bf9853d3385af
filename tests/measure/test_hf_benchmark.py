"""bench-hf counts what came out, compares texts, and adds up without favour; on two random models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.measure.documents import Document
from tests.support.tiny_models import Pair, make_pair

torch = pytest.importorskip("torch", reason="needs the extra torch")

from specwatch.measure import hf_benchmark, local_models  # noqa: E402 -- they need torch
from specwatch.measure.draft_evaluation import Encoded, encode  # noqa: E402
from specwatch.measure.hf_acceptance import counted_drafting  # noqa: E402
from specwatch.measure.hf_benchmark import ASSISTED, NGRAM, PLAIN, Generation, Plan  # noqa: E402
from specwatch.measure.hf_report import report  # noqa: E402

pytestmark = pytest.mark.vllm

PLAN = Plan(k=3, max_tokens=24, repetitions=2, warm_up=1)


class Loaded:
    """Both models, and three prompts of two domains."""

    def __init__(self, pair: Pair) -> None:
        placed, located = local_models.Placed("cpu", "float32"), local_models.locate(str(pair.target))
        self.target = local_models.load(located, placed)
        self.draft = local_models.load(local_models.locate(str(pair.draft)), placed)
        self.tokenizer = local_models.tokenizer(located)
        documents = [Document("ab"[place % 2], str(place), prompt=f"text {place * 37}") for place in range(3)]
        self.encoded: list[Encoded] = encode(self.tokenizer, documents, chat_template=True)

    def measure(self, plan: Plan = PLAN) -> list[Generation]:
        """All arms."""
        return list(hf_benchmark.measure(self.target, self.draft, self.encoded, plan))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return Loaded(make_pair(tmp_path_factory.mktemp("pair")))


@pytest.fixture(scope="module")
def measured(loaded: Loaded) -> list[Generation]:
    return loaded.measure()


@pytest.fixture
def early_end(loaded: Loaded) -> Iterator[int]:
    """A token that the target says early on becomes the end of a sequence; gives its place in the first text."""
    said = loaded.target.generation_config
    usual, plain = said.eos_token_id, loaded.measure(dataclasses.replace(PLAN, repetitions=1))[0]
    said.eos_token_id = plain.tokens[5]
    yield plain.tokens.index(plain.tokens[5])
    said.eos_token_id = usual


def test_every_arm_generates_for_every_prompt_and_repetition(measured):
    counted = {(one.arm, one.digest, one.repetition) for one in measured}
    assert len(counted) == len(measured) == 3 * 3 * 2


def test_speculation_changes_no_text_at_temperature_0(measured):
    assert all(one.equal for one in measured if one.arm != PLAIN)
    texts = {(one.digest, one.tokens) for one in measured}
    assert len(texts) == 3


def test_counts_are_those_of_the_text_by_the_tokenizer(loaded, measured):
    for one in measured:
        # Sixty-four bytes and more of this alphabet are no text by themselves: only whole ones can be read back.
        pieces = loaded.tokenizer.convert_ids_to_tokens(list(one.tokens))
        assert len(pieces) == len(one.tokens) <= PLAN.max_tokens
        assert loaded.tokenizer.convert_tokens_to_ids(pieces) == list(one.tokens)


def test_an_early_end_is_counted_up_to_the_end(loaded, early_end):
    for one in loaded.measure(dataclasses.replace(PLAN, repetitions=1))[:3]:
        assert len(one.tokens) == early_end + 1 < PLAN.max_tokens


def test_what_stands_behind_an_end_is_cut_off():
    assert hf_benchmark._until_end([5, 6, 1, 2, 2], frozenset([1])) == (5, 6, 1)
    assert hf_benchmark._until_end([5, 6], frozenset([1])) == (5, 6)
    assert hf_benchmark._until_end([], frozenset()) == ()


def test_acceptance_is_that_of_the_steps(measured):
    for one in measured:
        if one.arm == PLAIN:
            assert one.drafted == one.accepted == 0
        else:
            assert 0 <= one.accepted <= one.drafted
    assisted = [one for one in measured if one.arm == ASSISTED]
    # A step puts out what it accepted and one token more.
    for one in assisted:
        steps = len(one.tokens) - one.accepted
        assert PLAN.k * (steps - 2) <= one.drafted <= PLAN.k * steps


def test_a_draft_that_is_the_target_is_always_accepted(loaded):
    plan = dataclasses.replace(PLAN, repetitions=1, ngram=False)
    twin = loaded.draft
    twin_weights = {name: weight.clone() for name, weight in twin.state_dict().items()}
    twin.load_state_dict(loaded.target.state_dict())
    try:
        found = [one for one in hf_benchmark.measure(loaded.target, twin, loaded.encoded, plan) if one.arm == ASSISTED]
    finally:
        twin.load_state_dict(twin_weights)
    assert all(one.accepted == one.drafted > 0 for one in found)


def test_counting_leaves_the_model_as_it_was(loaded):
    before = set(vars(loaded.target))
    with counted_drafting(loaded.target):
        pass
    assert set(vars(loaded.target)) == before


def test_a_model_that_tells_nothing_is_not_counted():
    with counted_drafting(object()) as counts:
        pass
    assert not counts.known


def test_without_a_draft_and_without_n_grams_there_is_nothing_to_compare(loaded):
    with pytest.raises(InputError, match="nothing to compare"):
        next(hf_benchmark.measure(loaded.target, None, loaded.encoded, dataclasses.replace(PLAN, ngram=False)))


def test_above_temperature_0_texts_are_not_compared(loaded):
    plan = dataclasses.replace(PLAN, temperature=1.0, repetitions=1)
    assert all(one.equal is None for one in loaded.measure(plan))


def generation(arm: str, digest: str, tokens: int, seconds: float, **more: Any) -> Generation:
    values = {"domain": "a", "repetition": 0, "drafted": 0, "accepted": 0, "equal": None} | more
    return Generation(arm=arm, digest=digest, tokens=(7,) * tokens, seconds=seconds, **values)


def test_speedup_is_of_tokens_per_second_and_unmoved_by_texts_of_other_lengths():
    listed = [generation(PLAIN, "x", 100, 10.0), generation(NGRAM, "x", 50, 2.5, drafted=40, accepted=10)]
    arms = report(listed, PLAN)["domains"]["a"]["arms"]
    assert arms[NGRAM]["speedup"] == pytest.approx(2.0)
    assert arms[NGRAM]["acceptance_rate"] == 0.25
    assert "speedup" not in arms[PLAIN]


def test_intervals_draw_prompts_and_not_generations():
    listed = []
    for digest, plain, fast in (("x", 1.0, 0.5), ("y", 1.0, 1.0)):
        for repetition in range(10):
            listed += [generation(PLAIN, digest, 10, plain, repetition=repetition)]
            listed += [generation(ASSISTED, digest, 10, fast, repetition=repetition, equal=digest == "x")]
    entry = report(listed, PLAN)["domains"]["a"]["arms"][ASSISTED]
    assert entry["speedup"] == pytest.approx(20 / 15)
    # Two prompts drawn anew give 1, 4/3 or 2 times, however often each was repeated.
    assert entry["speedup_interval"] == pytest.approx([1.0, 2.0])
    assert entry["equal_to_plain"] == 0.5


def test_several_domains_are_added_up_as_well():
    listed = [generation(PLAIN, "x", 10, 1.0), generation(PLAIN, "y", 30, 1.0, domain="b")]
    domains = report(listed, PLAN)["domains"]
    assert list(domains) == ["a", "b", "all"]
    assert domains["all"]["arms"][PLAIN]["tokens_per_second"] == 20
