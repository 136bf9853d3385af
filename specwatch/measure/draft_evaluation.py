"""Expected acceptance of a draft on documents, without drafting: what it rests on is in ``acceptance_walk``.

A document's completion is the one that is given, or what the target writes. Only the target's own text says exactly
what a draft would have met live; a given one stands for it, and every token's expected acceptance is then taken where
the given text is, not where the target would have gone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.measure.acceptance_walk import ScoredText
from specwatch.measure.documents import Document
from specwatch.measure.local_models import end_tokens, remedied
from specwatch.measure.teacher_forcing import Drafting, Text, complete, score

DIGITS = 5
"""Of a probability, as it is kept on disk."""
Progress = Callable[[int, int], None]
"""Called with the documents done and all of them."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides an evaluation's outcome, beside the documents."""

    target: str
    draft: str
    temperature: float = 0.0
    draft_sample_method: str = "greedy"
    """vLLM's word: ``greedy`` or ``probabilistic``."""
    k: int = 8
    """Most draft tokens a step: every K up to it is evaluated."""
    max_tokens: int = 128
    """Tokens that the target writes where no completion is given."""
    dtype: str = "float32"
    chat_template: bool = True
    """Whether prompts become a user's message where the tokenizer has a template for chats."""
    seed: int = 0

    @property
    def written(self) -> int:
        """Tokens that the target writes: the last step of an answer drafts K beyond its end."""
        return self.max_tokens + self.k

    @property
    def drafting(self) -> Drafting:
        """How tokens are chosen."""
        return Drafting(self.temperature, self.draft_sample_method == "probabilistic")


@dataclass(frozen=True)
class Evaluated:
    """One document's outcome."""

    digest: str
    domain: str
    own: bool
    """Whether the target wrote the completion."""
    text: ScoredText


@dataclass(frozen=True)
class Encoded:
    """A document as tokens."""

    document: Document
    prompt: tuple[int, ...]
    completion: tuple[int, ...] | None


def encode(tokenizer: Any, documents: Sequence[Document], chat_template: bool) -> list[Encoded]:
    """Documents as the target reads them; InputError where a chat has no template."""
    return [_encode(tokenizer, document, chat_template) for document in documents]


def _encode(tokenizer: Any, document: Document, chat_template: bool) -> Encoded:
    messages = [{"role": role, "content": content} for role, content in document.messages]
    template = getattr(tokenizer, "chat_template", None)
    if messages and not template:
        raise InputError(f'{document.place}: "messages" need a chat template, and this tokenizer has none')
    if not messages and template and chat_template:
        messages = [{"role": "user", "content": document.prompt}]
    if messages:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        prompt = tokenizer(document.prompt)["input_ids"]
    given = document.completion
    completion = None if given is None else tuple(tokenizer(given, add_special_tokens=False)["input_ids"])
    return Encoded(document, tuple(prompt), completion)


def longest(encoded: Sequence[Encoded], written: int) -> int:
    """Tokens of the longest text, ``written`` ones included where no completion is given."""
    return max((_length(one, written) for one in encoded), default=0)


def split_by_length(encoded: Sequence[Encoded], written: int, limit: int | None) -> tuple[list[Encoded], list[Encoded]]:
    """Documents that fit into a context of ``limit`` tokens, and those that do not."""
    fitting = [one for one in encoded if limit is None or _length(one, written) <= limit]
    return fitting, [one for one in encoded if limit is not None and _length(one, written) > limit]


def _length(one: Encoded, written: int) -> int:
    return len(one.prompt) + (written if one.completion is None else len(one.completion))


def evaluate(
    target: Any,
    draft: Any,
    encoded: Sequence[Encoded],
    settings: Settings,
    batch_size: int,
    kept: PartialResults | None = None,
    progress: Progress | None = None,
) -> list[Evaluated]:
    """Evaluate every document that ``kept`` does not hold yet, and return all, in the order of the documents."""
    done = dict(kept.done) if kept else {}
    todo = [one for one in encoded if one.document.digest not in done]
    # Texts of similar length share a batch: the shorter ones are filled up to the longest.
    todo.sort(key=lambda one: (one.completion is None, _length(one, settings.written)))
    for batch in _batches(todo, batch_size):
        held = f"; {len(done)} of {len(encoded)} documents are kept" if kept else ""
        with remedied(f"evaluating {len(batch)} documents at a time", held):
            for result in _evaluate_batch(target, draft, batch, settings):
                done[result.digest] = result
                if kept:
                    kept.add(result)
        if progress:
            progress(len(done), len(encoded))
    return [done[one.document.digest] for one in encoded]


def _batches(todo: Sequence[Encoded], size: int) -> Iterator[Sequence[Encoded]]:
    """So many at a time, those with a completion and those without never together."""
    for given in (False, True):
        part = [one for one in todo if (one.completion is not None) == given]
        for start in range(0, len(part), size):
            yield part[start : start + size]


def _evaluate_batch(target: Any, draft: Any, batch: Sequence[Encoded], settings: Settings) -> Iterator[Evaluated]:
    texts = _written(target, batch, settings) if batch[0].completion is None else [_given(one) for one in batch]
    for one, text, scored in zip(batch, texts, score(target, draft, texts, settings.drafting), strict=True):
        yield Evaluated(one.document.digest, one.document.domain, text.own, scored)


def _given(one: Encoded) -> Text:
    completion = one.completion or ()
    return Text(one.prompt, completion, counted=len(completion), own=False)


def _written(target: Any, batch: Sequence[Encoded], settings: Settings) -> list[Text]:
    """The target's own text, with the tokens after its end that the last step would still have drafted."""
    import torch

    name = f"{settings.seed} {[one.document.digest for one in batch]}"
    generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big"))
    written = complete(target, [one.prompt for one in batch], settings.written, settings.temperature, generator)
    ends = end_tokens(target)
    texts = []
    for one, tokens in zip(batch, written, strict=True):
        end = next((place + 1 for place, token in enumerate(tokens) if token in ends), settings.max_tokens)
        counted = min(end, settings.max_tokens)
        texts.append(Text(one.prompt, tuple(tokens[: counted + settings.k]), counted, own=True))
    return texts


class PartialResults:
    """A file of what is done so far: an evaluation that was broken off goes on from there."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Open it; InputError where it belongs to other settings, or is none of these files."""
        self.path = path
        self.done: dict[str, Evaluated] = {}
        head = json.dumps({"specwatch": "draft evaluation", "settings": asdict(settings)}, sort_keys=True)
        try:
            lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
            if lines not in ([], [""]) and lines[0] != head:  # an empty one was cut off before its first line
                raise InputError(f"{path} holds partial results of other settings: remove it, or take another --output")
            for line in lines[1:-1]:  # what follows the last newline was cut off while it was written
                result = _read(line)
                self.done[result.digest] = result
            whole = [head, *lines[1:-1]]
            path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise InputError(f"{path}: {problem}") from None
        except (ValueError, LookupError, TypeError) as problem:
            raise InputError(f"{path} cannot be read as partial results: {problem!r}; remove it") from None

    def add(self, result: Evaluated) -> None:
        """Write one more."""
        entry = asdict(result)
        for key in ("kept", "expected"):
            entry["text"][key] = [round(value, DIGITS) for value in entry["text"][key]]
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry) + "\n")
        self.done[result.digest] = result

    def remove(self) -> None:
        """All is done."""
        self.path.unlink(missing_ok=True)


def _read(line: str) -> Evaluated:
    entry = json.loads(line)
    text = entry["text"]
    scored = ScoredText(tuple(map(float, text["kept"])), tuple(map(float, text["expected"])), int(text["counted"]))
    return Evaluated(str(entry["digest"]), str(entry["domain"]), bool(entry["own"]), scored)
