"""The lab's models: a recipe names its result, the result is trained once, and nothing half-made stays."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path

import pytest

from specwatch.errors import SpecwatchError
from specwatch.lab import corpus, models, phrases
from specwatch.lab.models import Recipe, Student

TINY = Recipe(
    target=Student(layers=2, width=32, heads=1, diet=(("code", 1.0), ("es", 1.0)), steps=3),
    draft=Student(layers=1, width=32, heads=1, diet=(("code", 1.0), ("es", 0.5)), steps=2),
    rows=2,
    row_tokens=32,
    corpus_bytes=4000,
    max_position_embeddings=64,
    threads=1,
)
"""Trains in well under a second."""

needs_torch = pytest.mark.vllm


class FakeTraining:
    """Stands for ``specwatch.lab.training``: writes a file instead of a model."""

    def __init__(self, fails_at: str = "") -> None:
        self.trained: list[str] = []
        self.fails_at = fails_at

    def train(self, student: Student, recipe: Recipe, folder: Path, progress: models.Report) -> None:
        """Leave half a model, and break off there when told to."""
        self.trained.append(folder.name)
        folder.mkdir(parents=True)
        (folder / "half").write_text("half")
        if folder.name == self.fails_at:
            raise KeyboardInterrupt
        progress(1.0)

    def train_pair(self, recipe: Recipe, folder: Path, report: models.Report) -> None:
        """One after the other."""
        for name in ("target", "draft"):
            self.train(getattr(recipe, name), recipe, folder / name, lambda done, name=name: report(name, done))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    training = FakeTraining()
    monkeypatch.setattr(models, "_training", lambda: training)
    return training


CHANGES = {
    "target": Student(layers=4, width=64, heads=2, diet=(("es", 1.0),)),
    "draft": Student(layers=2, width=64, heads=2, diet=(("code", 1.0),)),
    "rows": 3,
    "row_tokens": 31,
    "learning_rate": 0.001,
    "corpus_bytes": 1000,
    "max_position_embeddings": 2048,
    "seed": 1,
    "threads": 4,
    "corpus": "another",
    "version": 99,
}


def test_every_field_of_a_recipe_has_a_change_to_try():
    assert set(CHANGES) == {field.name for field in dataclasses.fields(Recipe)}


@pytest.mark.parametrize("name", CHANGES)
def test_the_digest_changes_with_every_field(name: str):
    assert dataclasses.replace(TINY, **{name: CHANGES[name]}).digest != TINY.digest


@pytest.mark.parametrize(
    "change", [{"layers": 3}, {"width": 64}, {"heads": 2}, {"diet": (("code", 1.0),)}, {"steps": 4}]
)
def test_the_digest_changes_with_every_field_of_a_student(change: dict[str, object]):
    other = dataclasses.replace(TINY, draft=dataclasses.replace(TINY.draft, **change))
    assert other.digest != TINY.digest


def test_equal_recipes_have_one_digest():
    assert dataclasses.replace(TINY).digest == TINY.digest
    assert Recipe().digest == models.DEFAULT.digest


def test_another_corpus_is_another_recipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(phrases.LISTS, "city", ("Paris",))
    assert Recipe().digest != models.DEFAULT.digest


def test_the_default_recipe_feeds_known_domains_and_whole_heads():
    for student in (models.DEFAULT.target, models.DEFAULT.draft):
        assert {domain for domain, _ in student.diet} <= set(corpus.DOMAINS)
        assert student.width % 32 == 0
    assert models.DEFAULT.max_position_embeddings >= 1024


def test_models_are_trained_once_and_then_reused(tmp_path: Path, fake: FakeTraining):
    first = models.prepare(tmp_path, TINY)
    assert models.prepare(tmp_path, TINY) == first
    assert fake.trained == ["target", "draft"]
    assert first.target == tmp_path / "models" / TINY.digest / "target"
    assert first.draft.is_dir()


def test_another_recipe_is_kept_beside_the_first(tmp_path: Path, fake: FakeTraining):
    first = models.prepare(tmp_path, TINY)
    other = models.prepare(tmp_path, dataclasses.replace(TINY, seed=1))
    assert first.target.is_dir()
    assert other.target.is_dir()
    assert len(fake.trained) == 4


@pytest.mark.parametrize("fails_at", ["target", "draft"])
def test_an_interrupted_training_leaves_nothing(tmp_path: Path, fake: FakeTraining, fails_at: str):
    fake.fails_at = fails_at
    with pytest.raises(KeyboardInterrupt):
        models.prepare(tmp_path, TINY)
    assert [path for path in tmp_path.rglob("*") if path.name != ".lock"] == [tmp_path / "models"]


def test_what_a_killed_training_left_is_replaced(tmp_path: Path, fake: FakeTraining):
    left = tmp_path / "models" / f"{TINY.digest}.unfinished" / "target"
    left.mkdir(parents=True)
    (left / "half").write_text("old")
    found = models.prepare(tmp_path, TINY)
    assert (found.target / "half").read_text() == "half"
    assert not left.exists()


def test_the_cache_is_where_the_environment_says(tmp_path: Path, fake: FakeTraining, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECWATCH_CACHE", str(tmp_path / "there"))
    assert models.prepare(recipe=TINY).target.is_relative_to(tmp_path / "there")
    monkeypatch.delenv("SPECWATCH_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models.default_cache() == tmp_path / ".cache" / "specwatch"


def test_progress_is_reported_by_stage(tmp_path: Path, fake: FakeTraining):
    reports: list[tuple[str, float]] = []
    models.prepare(tmp_path, TINY, report=lambda stage, fraction: reports.append((stage, fraction)))
    assert reports == [("target", 1.0), ("draft", 1.0)]


def test_missing_torch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(name: str) -> None:
        raise ModuleNotFoundError(f"No module named 'torch' for {name}", name="torch")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(SpecwatchError, match=r"torch: pip install 'specwatch\[torch\]'"):
        models.prepare(tmp_path, TINY)


def test_cached_models_need_no_torch(tmp_path: Path, fake: FakeTraining, monkeypatch: pytest.MonkeyPatch):
    found = models.prepare(tmp_path, TINY)
    monkeypatch.setattr(models, "_training", lambda: pytest.fail("trained again"))
    assert models.prepare(tmp_path, TINY) == found


@needs_torch
@pytest.mark.timeout(600)  # six processes that load torch
def test_a_tiny_recipe_trains_and_repeats_bit_for_bit(tmp_path: Path):
    first, second = (models.prepare(tmp_path / name, TINY) for name in ("first", "second"))
    other = models.prepare(tmp_path / "other", dataclasses.replace(TINY, seed=1))
    for name in ("target", "draft"):
        weights = [(getattr(found, name) / "model.safetensors").read_bytes() for found in (first, second, other)]
        assert weights[0] == weights[1] != weights[2]


@needs_torch
def test_training_leaves_torch_as_it_was(tmp_path: Path):
    import torch

    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    models.prepare(tmp_path, TINY)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(1), expected)


@needs_torch
def test_training_reports_every_step(tmp_path: Path):
    reports: list[tuple[str, float]] = []
    models.prepare(tmp_path, TINY, report=lambda stage, fraction: reports.append((stage, round(fraction, 2))))
    assert reports == [("target", 0.33), ("target", 0.67), ("target", 1.0), ("draft", 1.0)]


@needs_torch
def test_training_lowers_the_loss(tmp_path: Path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def loss(recipe: Recipe) -> float:
        folder = models.prepare(tmp_path, recipe).target
        tokens = AutoTokenizer.from_pretrained(folder)(corpus.prompts("code", 1, 0)[0], return_tensors="pt")
        with torch.no_grad():
            return float(AutoModelForCausalLM.from_pretrained(folder)(**tokens, labels=tokens.input_ids).loss)

    longer = dataclasses.replace(TINY, target=dataclasses.replace(TINY.target, steps=40))
    assert loss(longer) < loss(TINY) - 0.5


@needs_torch
def test_both_models_load_with_one_byte_level_tokenizer(tmp_path: Path):
    from transformers import AutoTokenizer

    found = models.prepare(tmp_path, TINY)
    text = "def año():\n\treturn '日本' # ¿qué?  <eos>"
    for folder in (found.target, found.draft):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokens = tokenizer.encode(text)
        assert tokens[0] == tokenizer.bos_token_id
        assert tokenizer.decode(tokens, skip_special_tokens=True) == text.replace("<eos>", "")
        assert len(tokenizer.encode("año")) == 1 + len("año".encode())
        config = json.loads((folder / "config.json").read_text())
        assert config["vocab_size"] == len(tokenizer)
        assert (config["bos_token_id"], config["eos_token_id"], config["pad_token_id"]) == (0, 1, 2)
        assert config["max_position_embeddings"] == 64
