"""How the lab's models are trained: needs torch and transformers, so import it only where a model is made."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specwatch.lab import corpus
from specwatch.lab.models import Recipe, Report, Student

HEAD_SIZE = 32
"""Width of one attention head, the smallest that vLLM's attention on a CPU takes."""

WARM_UP = 0.1
"""Share of the steps in which the learning rate rises to its full value."""

BOS, EOS, PAD = "<bos>", "<eos>", "<pad>"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with one token a byte, and BOS in front of every text: the same for target and draft."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([BOS, EOS, PAD, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, vocabulary[BOS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD, clean_up_tokenization_spaces=False
    )


def train_pair(recipe: Recipe, folder: Path, report: Report) -> None:
    """Train target and draft at once, each in a process of its own.

    A second thread would make models this small slower, a second process halves the time. ``report`` follows the
    target, which takes longer.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as beside:
        draft = beside.submit(train, recipe.draft, recipe, folder / "draft", _silently)
        train(recipe.target, recipe, folder / "target", lambda done: report("target", done))
        draft.result()
    report("draft", 1.0)


def _silently(_done: float) -> None:
    pass


def train(student: Student, recipe: Recipe, folder: Path, progress: Callable[[float], None]) -> None:
    """Train one model from nothing and save it, with its tokenizer, in ``folder``."""
    tokenizer = byte_tokenizer()
    with _reproducible(recipe):
        model = LlamaForCausalLM(_configuration(student, recipe, tokenizer))
        optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, student.steps))
        for step, rows in enumerate(_batches(student, recipe, tokenizer)):
            loss = model(input_ids=rows, labels=rows).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            schedule.step()
            progress((step + 1) / student.steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _configuration(student: Student, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=student.width,
        intermediate_size=3 * student.width,
        num_hidden_layers=student.layers,
        num_attention_heads=student.heads,
        num_key_value_heads=student.heads,
        head_dim=HEAD_SIZE,
        initializer_range=student.width**-0.5,  # the usual 0.02 suits thousands wide; here it costs half the steps
        max_position_embeddings=recipe.max_position_embeddings,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


@contextlib.contextmanager
def _reproducible(recipe: Recipe) -> Iterator[None]:
    """Seed torch and fix its threads inside, and leave both as they were."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        torch.set_num_threads(recipe.threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def _rate(step: int, steps: int) -> float:
    """Share of the full learning rate at a step: a short rise, then half a cosine down to a twentieth."""
    rise = max(1, round(steps * WARM_UP))
    if step < rise:
        return (step + 1) / rise
    return 0.05 + 0.95 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise))) / 2


def _batches(student: Student, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Iterator[torch.Tensor]:
    """A batch a step: rows cut at random places from the texts of the diet's domains."""
    texts = {domain: _text(domain, recipe, tokenizer) for domain, _ in student.diet}
    source = torch.Generator().manual_seed(recipe.seed)
    shares = torch.tensor([share for _, share in student.diet])
    domains = [domain for domain, _ in student.diet]
    for _ in range(student.steps):
        picked = torch.multinomial(shares, recipe.rows, replacement=True, generator=source)
        rows = []
        for choice in picked.tolist():
            text = texts[domains[choice]]
            start = int(torch.randint(len(text) - recipe.row_tokens, (1,), generator=source))
            rows.append(text[start : start + recipe.row_tokens])
        yield torch.stack(rows)


def _text(domain: str, recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> torch.Tensor:
    """Documents of a domain in one row of tokens, each between BOS and EOS."""
    tokens: list[int] = []
    documents = corpus.documents(domain, recipe.seed)
    while len(tokens) < recipe.corpus_bytes:
        tokens += [*tokenizer.encode(next(documents)), tokenizer.eos_token_id]
    return torch.tensor(tokens)
