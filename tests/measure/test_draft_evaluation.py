"""What evaluate-draft predicts is what speculative decoding does, on two random models; and what can go wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import pytest

from specwatch.errors import InputError, SpecwatchError
from specwatch.measure.acceptance_walk import walk
from specwatch.measure.documents import Document
from tests.support.tiny_models import CONTEXT, Pair, make_pair

torch = pytest.importorskip("torch", reason="needs the extra torch")

from specwatch.measure import draft_evaluation as evaluation  # noqa: E402 -- they need torch
from specwatch.measure import evaluation_report, local_models, teacher_forcing  # noqa: E402
from specwatch.measure.draft_evaluation import Evaluated, PartialResults, Settings  # noqa: E402
from specwatch.measure.reference_decoding import Decoded, decode  # noqa: E402
from specwatch.signals.fingerprint import parse  # noqa: E402
from specwatch.signals.speedup import DraftCost  # noqa: E402

pytestmark = pytest.mark.vllm

K = 3
SETTINGS = Settings("target", "draft", k=K, max_tokens=24)
WAYS = [(0.0, "greedy"), (1.0, "greedy"), (1.0, "probabilistic"), (0.7, "probabilistic")]


class Loaded:
    """Both models and eight documents."""

    def __init__(self, pair: Pair, placed: local_models.Placed) -> None:
        located = local_models.locate(str(pair.target))
        self.target = local_models.load(located, placed)
        self.draft = local_models.load(local_models.locate(str(pair.draft)), placed)
        self.tokenizer = local_models.tokenizer(located)
        documents = [Document("numbers", str(place), prompt=f"text {place * 37}") for place in range(8)]
        self.encoded = evaluation.encode(self.tokenizer, documents, chat_template=True)

    def evaluate(self, settings: Settings, batch: int = 8, kept: PartialResults | None = None) -> list[Evaluated]:
        """All documents."""
        return evaluation.evaluate(self.target, self.draft, self.encoded, settings, batch, kept)

    def decode(self, settings: Settings, results: Sequence[Evaluated], rounds: int = 1) -> list[Decoded]:
        """The papers' algorithm over the same documents, as long as the evaluated texts."""
        source = torch.Generator().manual_seed(11)
        return [
            decode(self.target, self.draft, one.prompt, result.text.counted, K, settings.drafting, source)
            for one, result in zip(self.encoded, results, strict=True)
            for _ in range(rounds)
        ]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def loaded(pair: Pair) -> Loaded:
    return Loaded(pair, local_models.Placed("cpu", "float32"))


def with_settings(temperature: float, method: str) -> Settings:
    return dataclasses.replace(SETTINGS, temperature=temperature, draft_sample_method=method)


def test_at_temperature_0_every_count_is_what_drafting_really_counts(loaded):
    results = loaded.evaluate(SETTINGS)
    for result, decoded in zip(results, loaded.decode(SETTINGS, results), strict=True):
        counts = walk(result.text, K)
        assert counts.drafts == (decoded.steps,) * K
        assert counts.accepted == decoded.accepted


@pytest.mark.parametrize(("temperature", "method"), WAYS[1:3])
def test_above_0_it_is_within_the_error_of_drafting_drawn_out(loaded, temperature, method):
    settings = dataclasses.replace(with_settings(temperature, method), seed=5)
    results = [result for seed in range(4) for result in loaded.evaluate(dataclasses.replace(settings, seed=seed))]
    counts = [walk(result.text, K) for result in results]
    predicted = sum(sum(count.accepted) for count in counts) / sum(sum(count.drafts) for count in counts)
    decoded = loaded.decode(settings, results[:8], rounds=2)
    steps = sum(one.steps for one in decoded)
    counted = sum(sum(one.accepted) for one in decoded) / (K * steps)
    # A step's share of K lies within 0 and 1, so its deviation is at most 1/2; the prediction's own error adds as much.
    assert predicted == pytest.approx(counted, abs=3 * math.sqrt(2) * 0.5 / math.sqrt(steps))


def test_a_draft_that_is_the_target_is_always_accepted(loaded):
    for temperature, method in ((0.0, "greedy"), (1.0, "probabilistic")):
        settings = with_settings(temperature, method)
        results = evaluation.evaluate(loaded.target, loaded.target, loaded.encoded, settings, 8)
        assert all(min(result.text.expected) > 0.999 for result in results)


@pytest.mark.parametrize(("temperature", "method"), WAYS)
def test_a_documents_outcome_does_not_depend_on_its_batch(loaded, temperature, method):
    settings = with_settings(temperature, method)
    given = [
        dataclasses.replace(one, completion=tuple(range(60, 60 + 5 * place + 2)))
        for place, one in enumerate(loaded.encoded)
    ]
    together, alone = (evaluation.evaluate(loaded.target, loaded.draft, given, settings, batch) for batch in (8, 1))
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.text.expected == pytest.approx(theirs.text.expected, abs=1e-4)


def test_small_chunks_change_nothing(loaded, monkeypatch):
    whole = loaded.evaluate(SETTINGS)
    monkeypatch.setattr(teacher_forcing, "LONGEST_CHUNK", 5)
    for ours, theirs in zip(loaded.evaluate(SETTINGS), whole, strict=True):
        assert ours.text.expected == pytest.approx(theirs.text.expected, abs=1e-4)


def test_chunks_shrink_with_batch_and_vocabulary():
    assert teacher_forcing.chunk_tokens(1, 1000) == teacher_forcing.LONGEST_CHUNK
    assert 0 < teacher_forcing.chunk_tokens(64, 128_000) < teacher_forcing.chunk_tokens(8, 128_000)
    assert teacher_forcing.chunk_tokens(10_000, 10_000_000) == 1


def test_a_given_completion_is_read_and_not_written(loaded):
    document = Document("mine", "1", prompt="a", completion="bcd")
    (encoded,) = evaluation.encode(loaded.tokenizer, [document], chat_template=True)
    (result,) = evaluation.evaluate(loaded.target, loaded.draft, [encoded], SETTINGS, 1)
    assert not result.own
    assert result.text.counted == len(result.text.kept) == 3
    assert result.text.kept == result.text.expected


def test_an_end_of_sequence_ends_the_count_and_not_what_is_looked_ahead_to(loaded):
    first = loaded.evaluate(SETTINGS)[0]
    written = teacher_forcing.complete(loaded.target, [loaded.encoded[0].prompt], 40, 0.0, torch.Generator())[0]
    usual = loaded.target.generation_config.eos_token_id
    loaded.target.generation_config.eos_token_id = written[4]
    try:
        ended = loaded.evaluate(SETTINGS)[0]
    finally:
        loaded.target.generation_config.eos_token_id = usual
    assert first.text.counted > ended.text.counted == written.index(written[4]) + 1
    assert len(ended.text.kept) == ended.text.counted + K


def test_a_chat_needs_a_template_and_a_prompt_gets_it_where_there_is_one(loaded):
    chat = Document("chat", "file:3", messages=(("user", "hi"),))
    with pytest.raises(InputError, match=r"file:3.*chat template"):
        evaluation.encode(loaded.tokenizer, [chat], chat_template=True)
    plain = Document("chat", "1", prompt="hi")
    loaded.tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}="
    try:
        asked, wrapped = evaluation.encode(loaded.tokenizer, [chat, plain], chat_template=True)
        (bare,) = evaluation.encode(loaded.tokenizer, [plain], chat_template=False)
    finally:
        loaded.tokenizer.chat_template = None
    assert asked.prompt == wrapped.prompt == tuple(loaded.tokenizer("<user>hi=", add_special_tokens=False)["input_ids"])
    assert bare.prompt == tuple(loaded.tokenizer("hi")["input_ids"])


def test_what_was_done_is_kept_and_not_done_again(loaded, tmp_path):
    path = tmp_path / "partial"
    whole = loaded.evaluate(SETTINGS, kept=PartialResults(path, SETTINGS))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4][:20]]))  # broken off while the fourth was written
    again = PartialResults(path, SETTINGS)
    assert len(again.done) == 3
    done: list[int] = []
    results = evaluation.evaluate(
        loaded.target, loaded.draft, loaded.encoded, SETTINGS, 1, again, lambda count, _: done.append(count)
    )
    assert done == [4, 5, 6, 7, 8]
    for ours, theirs in zip(results, whole, strict=True):
        assert ours.text.expected == pytest.approx(theirs.text.expected, abs=1e-4)


def test_partial_results_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "partial"
    PartialResults(path, SETTINGS)
    with pytest.raises(InputError, match="other settings"):
        PartialResults(path, dataclasses.replace(SETTINGS, temperature=1.0))


@pytest.mark.parametrize("line", ["{}", "[]", "null", '{"text": 3}', "no JSON"])
def test_damaged_partial_results_are_named(tmp_path, line):
    path = tmp_path / "partial"
    PartialResults(path, SETTINGS)
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(InputError, match="remove it"):
        PartialResults(path, SETTINGS)


class NoMemory:
    """A model that does what torch does when a GPU is full."""

    device, config = "cpu", None

    def __init__(self, like: Any) -> None:
        self.config, self.generation_config = like.config, like.generation_config

    def __call__(self, **_inputs: Any) -> Any:
        """Fail."""
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")


def test_running_out_of_memory_names_the_remedy_and_what_is_kept(loaded, tmp_path):
    kept = PartialResults(tmp_path / "partial", SETTINGS)
    with pytest.raises(SpecwatchError, match=r"8 documents at a time.*--batch-size.*0 of 8 documents are kept"):
        evaluation.evaluate(NoMemory(loaded.target), loaded.draft, loaded.encoded, SETTINGS, 8, kept)


def test_too_little_memory_is_known_before_anything_is_loaded(pair):
    models = [local_models.locate(str(folder)) for folder in (pair.target, pair.draft)]
    placed = local_models.Placed("cpu", "float32")
    needed = local_models.memory_needed(models, placed, batch=4, tokens=100, working=0)
    # Weights of 32 bits, and keys and values of 2 layers and one head of 16 numbers for 400 tokens, of both models.
    weights = sum(parameter.numel() for parameter in local_models.load(models[0], placed).parameters())
    assert needed == 2 * (4 * weights + 2 * 2 * 16 * 4 * 400)
    with pytest.raises(InputError, match=r"are free.*--batch-size"):
        local_models.refuse_too_large(needed, needed - 1, placed)
    local_models.refuse_too_large(needed, needed, placed)
    local_models.refuse_too_large(None, 1, placed)
    assert (local_models.memory_free("cpu") or 1) > 0


def test_documents_longer_than_the_context_are_left_out(loaded):
    long = Document("numbers", "long", prompt="a" * CONTEXT)
    (encoded,) = evaluation.encode(loaded.tokenizer, [long], chat_template=True)
    fitting, too_long = evaluation.split_by_length([*loaded.encoded, encoded], SETTINGS.written, CONTEXT)
    assert fitting == loaded.encoded
    assert too_long == [encoded]


def test_the_report_pools_documents_and_the_sidecar_can_read_it(loaded):
    results = loaded.evaluate(SETTINGS)
    report = evaluation_report.report(results, SETTINGS, DraftCost(0.1))
    (fingerprint,) = parse(report)
    counts = [walk(result.text, K) for result in results]
    rates = [sum(c.accepted[place] for c in counts) / sum(c.drafts[place] for c in counts) for place in range(K)]
    assert fingerprint.by_k[K] == pytest.approx(rates, abs=1e-5)
    entry = report["domains"]["numbers"]["by_k"][K - 1]
    assert entry["acceptance_length"] == pytest.approx(1 + sum(rates), abs=1e-4)
    assert entry["speedup"] == pytest.approx((1 + sum(rates)) / (1 + K * 0.1), abs=1e-4)
    low, high = entry["acceptance_rate_interval"]
    assert low < entry["acceptance_rate"] < high


def test_the_best_k_is_where_the_expected_speedup_is_largest(loaded):
    results = loaded.evaluate(SETTINGS)
    free = evaluation_report.report(results, SETTINGS, DraftCost(0.0))["domains"]["numbers"]
    dear = evaluation_report.report(results, SETTINGS, DraftCost(2.0))["domains"]["numbers"]
    assert free["best_num_speculative_tokens"] == K
    assert dear["best_num_speculative_tokens"] == 0


def test_documents_too_short_for_a_k_leave_it_out(loaded):
    document = Document("mine", "1", prompt="a", completion="bcd")
    encoded = evaluation.encode(loaded.tokenizer, [document], chat_template=True)
    results = evaluation.evaluate(loaded.target, loaded.draft, encoded, SETTINGS, 1)
    listed = evaluation_report.report(results, SETTINGS, DraftCost(0.1))["domains"]["mine"]["by_k"]
    assert [entry["num_speculative_tokens"] for entry in listed] == [1, 2]
