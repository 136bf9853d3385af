"""Does evaluate-draft predict what happens? On the lab's models and held-out prompts, against three of its kind.

    python -m benchmarks.draft_evaluation vllm          vLLM's counters, temperature 0, for every K
    python -m benchmarks.draft_evaluation huggingface   Hugging Face's assisted generation, temperature 1
    python -m benchmarks.draft_evaluation reference     the reference sampler, temperature 1, both ways of drafting

Prints a table for each: acceptance rate by domain and K, predicted and counted, and the largest difference. At
temperature 0 the prediction is made before, from prompts alone; above it, of the texts that were sampled.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import http_session, scrape
from specwatch.collect.targets import parse
from specwatch.lab import stage
from specwatch.lab.child import free_port, running
from specwatch.lab.corpus import DOMAINS, prompts
from specwatch.lab.models import prepare
from specwatch.measure import local_models
from specwatch.measure.acceptance_walk import ScoredText, walk
from specwatch.measure.documents import Document
from specwatch.measure.draft_evaluation import Encoded, Evaluated, Settings, encode, evaluate
from specwatch.measure.hf_acceptance import AssistedCounts, counted_drafting
from specwatch.measure.load import Load
from specwatch.measure.local_models import end_tokens
from specwatch.measure.reference_decoding import decode
from specwatch.measure.teacher_forcing import Drafting, Text, score
from specwatch.vllm.metrics import Counter

LIMIT = 0.03
"""Largest difference of acceptance rates that is let pass."""
TOKENS = 120
"""Of each answer: what the lab's traffic asks for."""
RESAMPLES = 2000
"""Of the documents, for an interval's ends at 2.5 and 97.5 %."""


@dataclass(frozen=True)
class Row:
    """One domain and K."""

    domain: str
    k: int
    predicted: float
    counted: float
    interval: tuple[float, float] | None = None
    """95 % interval of what was counted, by resampling documents."""

    def __str__(self) -> str:
        between = f"  {self.interval[0]:.4f}–{self.interval[1]:.4f}" if self.interval else ""
        off = self.predicted - self.counted
        return f"{self.domain:>6} {self.k:>3}  {self.predicted:9.4f} {self.counted:9.4f} {off:+9.4f}{between}"


class Pair:
    """The lab's models, loaded, and the documents as they read them."""

    def __init__(self, count: int, dtype: str) -> None:
        found = prepare()
        target = local_models.locate(str(found.target))
        placed = local_models.Placed("cpu", dtype)
        self.target = local_models.load(target, placed)
        self.draft = local_models.load(local_models.locate(str(found.draft)), placed)
        self.dtype = dtype
        documents = [
            Document(domain, f"{domain}:{place}", prompt=prompt)
            for domain in DOMAINS
            for place, prompt in enumerate(prompts(domain, count, seed=1))
        ]
        self.encoded = encode(local_models.tokenizer(target), documents, chat_template=False)

    def of(self, domain: str) -> list[Encoded]:
        """Documents of a domain."""
        return [one for one in self.encoded if one.document.domain == domain]

    def evaluate(self, k: int) -> list[Evaluated]:
        """The command's evaluation at temperature 0."""
        settings = Settings("target", "draft", k=k, max_tokens=TOKENS, dtype=self.dtype)
        return evaluate(self.target, self.draft, self.encoded, settings, batch_size=16)


def pooled(texts: Iterable[ScoredText], k: int, first: int = 1) -> float:
    """Predicted acceptance rate: accepted ÷ draft tokens, of all texts together."""
    counts = [walk(text, k, first) for text in texts]
    return sum(sum(count.accepted) for count in counts) / sum(sum(count.drafts) for count in counts)


def interval(accepted: Sequence[float], drafted: Sequence[float]) -> tuple[float, float]:
    """Where a pooled rate falls when documents are drawn anew, 95 %."""
    source = random.Random(0)  # noqa: S311 -- repeatable is the point here
    rates = []
    for _ in range(RESAMPLES):
        picked = source.choices(range(len(accepted)), k=len(accepted))
        rates.append(sum(accepted[place] for place in picked) / max(1e-9, sum(drafted[place] for place in picked)))
    rates.sort()
    return rates[round(0.025 * RESAMPLES)], rates[round(0.975 * RESAMPLES)]


async def against_vllm(pair: Pair, lengths: Sequence[int], count: int) -> list[Row]:
    """Counters of a vLLM server, started anew for every K."""
    results = pair.evaluate(max(lengths))
    rows = []
    for k in lengths:
        for domain, rate in (await _counters(k, count)).items():
            texts = [result.text for result in results if result.domain == domain]
            rows.append(Row(domain, k, pooled(texts, k), rate))
    return rows


async def _counters(k: int, count: int) -> dict[str, float]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = stage.vllm_arguments(prepare(), port)
    words[words.index("--num-speculative-tokens") + 1] = str(k)
    command = [sys.executable, "-m", "specwatch", "launch", "--no-sidecar", *words]
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        async with running("vLLM", command, Path(folder) / "vllm.log", stage.CPU_ENVIRONMENT) as child:
            await child.until_healthy(f"{url}/health", 600.0, lambda _seconds: None)
            for domain in DOMAINS:
                before = await _accepted(url)
                load = Load(url, stage.SERVED_NAME, prompts(domain, count, seed=1), 2, TOKENS, ignore_eos=False)
                totals = await load.run(requests=count)
                if totals.errors:
                    raise SystemExit(f"{totals.errors} requests failed: {totals.last_error}")
                await asyncio.sleep(1.0)  # vLLM counts a step a little after it was answered
                after = await _accepted(url)
                rates[domain] = (after[0] - before[0]) / (after[1] - before[1])
    return rates


async def _accepted(url: str) -> tuple[float, float]:
    """Accepted and draft tokens so far."""
    async with http_session() as session:
        page = await scrape(session, parse(url), PATIENT)
    engines = page.engines.values()
    accepted = sum(engine.counters.get(Counter.ACCEPTED_TOKENS, 0.0) for engine in engines)
    return accepted, sum(engine.counters.get(Counter.DRAFT_TOKENS, 0.0) for engine in engines)


def against_huggingface(pair: Pair, lengths: Sequence[int]) -> list[Row]:
    """Assisted generation at temperature 1, whose assistant draws its proposals and drafts from the first token on."""
    drafting = Settings("", "", 1.0, "probabilistic").drafting
    rows = []
    for k in lengths:
        for domain in DOMAINS:
            asked = pair.of(domain)
            done = [_assisted(pair, one, k) for one in asked]
            texts = [text for text, _ in done]
            # It never drafts the last token that it may write.
            scored = [_without_last(text) for text in _scored(pair, asked, texts, drafting)]
            accepted, drafted = [count.accepted for _, count in done], [count.drafted for _, count in done]
            rate = sum(accepted) / sum(drafted)
            rows.append(Row(domain, k, pooled(scored, k, first=0), rate, interval(accepted, drafted)))
    return rows


def _assisted(pair: Pair, one: Encoded, k: int) -> tuple[tuple[int, ...], AssistedCounts]:
    """The text, and what was counted on the way."""
    pair.draft.generation_config.num_assistant_tokens = k
    pair.draft.generation_config.num_assistant_tokens_schedule = "constant"
    pair.draft.generation_config.assistant_confidence_threshold = 0.0
    torch.manual_seed(int(one.document.digest, 16) % 2**31 + k)
    options: dict[str, Any] = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    prompt = torch.tensor([one.prompt])
    with counted_drafting(pair.target) as counts:
        output = pair.target.generate(prompt, assistant_model=pair.draft, max_new_tokens=TOKENS, **options)
    return tuple(output[0, prompt.shape[1] :].tolist()), counts


def against_reference(pair: Pair, lengths: Sequence[int], method: str) -> list[Row]:
    """The papers' algorithm, drawn out."""
    drafting = Settings("", "", 1.0, method).drafting
    rows = []
    for k in lengths:
        for domain in DOMAINS:
            asked, source = pair.of(domain), torch.Generator().manual_seed(k)
            decoded = [
                decode(pair.target, pair.draft, one.prompt, TOKENS, k, drafting, source, ends=end_tokens(pair.target))
                for one in asked
            ]
            scored = _scored(pair, asked, [one.tokens for one in decoded], drafting)
            # Of a last step that ran past the text, the prediction knows the beginning only.
            accepted, drafted = [float(sum(one.accepted)) for one in decoded], [float(k * one.steps) for one in decoded]
            rate = sum(accepted) / sum(drafted)
            rows.append(Row(domain, k, pooled(scored, k), rate, interval(accepted, drafted)))
    return rows


def _scored(
    pair: Pair, asked: Sequence[Encoded], texts: Sequence[tuple[int, ...]], drafting: Drafting
) -> list[ScoredText]:
    """What the evaluation makes of texts that the target wrote.

    Both ways of writing follow the target, so texts and counts can be held together one by one: texts drawn anew differ
    by more than what is looked for.
    """
    read = [Text(one.prompt, text, len(text), own=True) for one, text in zip(asked, texts, strict=True)]
    return score(pair.target, pair.draft, read, drafting)


def _without_last(text: ScoredText) -> ScoredText:
    if text.counted < TOKENS:
        return text
    return ScoredText(text.kept[:-1], text.expected[:-1], text.counted - 1)


def show(title: str, rows: Sequence[Row]) -> None:
    """Print a table."""
    print(f"{title}\n{'domain':>6} {'K':>3}  {'predicted':>9} {'counted':>9} {'off':>9}")
    for row in rows:
        print(row, flush=True)
    worst = max(abs(row.predicted - row.counted) for row in rows)
    print(f"largest difference {worst:.4f}; at most {LIMIT} is wanted, of the reference sampler the interval is")
    inside = [row.interval[0] <= row.predicted <= row.interval[1] for row in rows if row.interval]
    if inside:
        print(f"inside the counted interval: {sum(inside)} of {len(inside)}")


def main() -> None:
    """Measure one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("against", choices=["vllm", "huggingface", "reference"])
    parser.add_argument("--documents", type=int, default=64, help="of each domain (%(default)s)")
    parser.add_argument("--k", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument(
        "--method", nargs="+", default=["greedy", "probabilistic"], help="how the reference sampler's draft chooses"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # models this small only lose by more
    # The lab's server runs in bfloat16; the other two in 32 bits, where no tie is broken by rounding.
    pair = Pair(options.documents, "bfloat16" if options.against == "vllm" else "float32")
    if options.against == "vllm":
        rows = asyncio.run(against_vllm(pair, options.k, options.documents))
        show("vLLM's counters, temperature 0", rows)
    elif options.against == "huggingface":
        show("Hugging Face's assisted generation, temperature 1", against_huggingface(pair, options.k))
    else:
        for method in options.method:
            show(f"reference sampler, temperature 1, {method}", against_reference(pair, options.k, method))


if __name__ == "__main__":
    main()
