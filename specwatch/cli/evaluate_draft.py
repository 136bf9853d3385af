"""``specwatch evaluate-draft``: what acceptance to expect of a draft, by domain, before anything is deployed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specwatch.cli import local_texts
from specwatch.errors import InputError
from specwatch.signals.speedup import DraftCost, from_parameter_counts
from specwatch.vllm.preflight.models import Model

if TYPE_CHECKING:
    from specwatch.measure.draft_evaluation import Encoded, Evaluated, PartialResults, Settings
    from specwatch.measure.local_models import Placed

NARROW = 20
"""Documents of a domain below which an interval that resamples them is too narrow to trust."""


@click.command("evaluate-draft")
@click.option("--target", required=True, metavar="MODEL", help="A folder, or a repository of Hugging Face.")
@click.option("--draft", required=True, metavar="MODEL", help="The draft model.")
@click.option("--domain", "domains", multiple=True, required=True, metavar="NAME[=FILE.jsonl]", help="Repeatable.")
@click.option("--limit", type=click.IntRange(1), help="Documents of each domain.  [default: all]")
@click.option("--k", type=click.IntRange(1, 64), default=8, show_default=True, help="Every K up to this one.")
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.0, show_default=True)
@click.option(
    "--draft-sample-method",
    type=click.Choice(["greedy", "probabilistic"]),
    default="greedy",
    show_default=True,
    help="How the draft chooses, in vLLM's words.",
)
@click.option("--max-tokens", type=click.IntRange(2), default=128, show_default=True, help="That the target writes.")
@click.option("--draft-cost", type=click.FloatRange(0, 10), metavar="C", help="Draft token ÷ target step.")
@click.option("--verifying-cost", type=click.FloatRange(0.1, 100), default=1.0, metavar="V", help="See roofline.")
@click.option("--batch-size", type=click.IntRange(1), default=8, show_default=True, help="Documents at a time.")
@local_texts.placing_options
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Fingerprints, JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(domains: Sequence[str], limit: int | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """What acceptance a draft will have on your texts, position by position for every K, without a server.

    Each line of a file is one document: {"prompt": …} or {"messages": […]}, and "completion" where you have what a
    model answered. Without it the target writes one, and the prediction is exact for such text. code, json and
    prose-es are built in.

    With --output an evaluation that was broken off goes on where it ended, and specwatch sidecar --fingerprints reads
    the result: it then names the domain that drifted traffic is most like.
    """
    from specwatch.measure import documents, local_models
    from specwatch.measure.local_models import need_torch

    need_torch()
    from specwatch.measure import draft_evaluation, evaluation_report

    found = documents.read(domains, limit)
    target, draft = local_models.locate(options["target"]), local_models.locate(options["draft"])
    local_models.refuse_other_tokenizer(target, draft)
    placed = local_models.place(options["device"], options["dtype"])
    settings = _settings(options, placed)
    cost = _cost(options, target, draft)
    encoded = draft_evaluation.encode(local_models.tokenizer(target), found, settings.chat_template)
    fitting, left_out = local_texts.fitting(encoded, [target, draft], settings.written)
    local_texts.say_memory([target, draft], placed, fitting, options["batch_size"], settings.written)
    kept = _kept(output, settings)
    results = _evaluate([target, draft], placed, fitting, settings, options["batch_size"], kept)
    content = evaluation_report.report(results, settings, cost)
    content["left_out"] = [one.document.place for one in left_out]
    if output:
        output.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if kept:
        kept.remove()
    click.echo(json.dumps(content, indent=2, ensure_ascii=False)) if as_json else _show(content)


def _settings(options: dict[str, Any], placed: Placed) -> Settings:
    from specwatch.measure.draft_evaluation import Settings

    same = ("target", "draft", "temperature", "draft_sample_method", "k", "max_tokens", "chat_template", "seed")
    return Settings(dtype=placed.dtype, **{name: options[name] for name in same})


def _cost(options: dict[str, Any], target: Model, draft: Model) -> DraftCost:
    from specwatch.vllm.checkpoint import parameters
    from specwatch.vllm.preflight.shape import dense_parameters

    v = options["verifying_cost"]
    if options["draft_cost"] is not None:
        return DraftCost(options["draft_cost"], v, "given")
    ours, theirs = (parameters(str(model.folder)) or dense_parameters(model) for model in (target, draft))
    if not ours or not theirs:
        raise InputError("the models' sizes are not known from their files: give --draft-cost")
    known = from_parameter_counts(theirs / ours)
    return DraftCost(known.c, v, known.source)


def _kept(output: Path | None, settings: Settings) -> PartialResults | None:
    from specwatch.measure.draft_evaluation import PartialResults

    if output is None:
        return None
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}")
    kept = PartialResults(output.with_name(output.name + ".partial"), settings)
    if kept.done:
        click.echo(f"{len(kept.done)} documents are done already, by {kept.path}", err=True)
    return kept


def _evaluate(
    models: Sequence[Model],
    placed: Placed,
    encoded: Sequence[Encoded],
    settings: Settings,
    batch: int,
    kept: PartialResults | None,
) -> list[Evaluated]:
    """Load and evaluate, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from specwatch.measure.draft_evaluation import evaluate
    from specwatch.measure.local_models import load

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("loading", total=len(encoded))
        target, draft = (load(model, placed) for model in models)
        bar.update(task, description="evaluating")
        return evaluate(
            target, draft, encoded, settings, batch, kept, lambda done, total: bar.update(task, completed=done)
        )


def _show(content: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("domain", no_wrap=True)
    for heading in ("K", "acceptance", "95 %", "length", "speedup", "95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, domain in content["domains"].items():
        for entry in domain["by_k"]:
            best = entry["num_speculative_tokens"] == domain["best_num_speculative_tokens"]
            table.add_row(
                name if entry is domain["by_k"][0] else "",
                f"{entry['num_speculative_tokens']}{' *' if best else '  '}",
                f"{entry['acceptance_rate']:.3f}",
                "{:.3f}–{:.3f}".format(*entry["acceptance_rate_interval"]),
                f"{entry['acceptance_length']:.2f}",
                f"{entry['speedup']:.2f}",
                "{:.2f}–{:.2f}".format(*entry["speedup_interval"]),
            )
    Console(highlight=False, markup=False).print(table)
    for line in _advice(content):
        click.echo(line)


def _advice(content: dict[str, Any]) -> list[str]:
    """What each domain wants, and what the figures rest on."""
    lines = []
    for name, domain in content["domains"].items():
        if not domain["by_k"]:
            lines.append(f"{name}: its texts are too short to say anything")
            continue
        best = max(domain["by_k"], key=lambda entry: float(entry["speedup"]))
        told = f"expected {best['speedup']:.2f} times the plain speed at K = {best['num_speculative_tokens']}"
        positions = " ".join(f"{rate:.2f}" for rate in domain["by_k"][-1]["acceptance_by_position"])
        if not domain["best_num_speculative_tokens"]:
            lines.append(f"{name}: below break-even at every K ({told}): do not draft for it")
        elif best["speedup_interval"][0] <= 1.0:
            lines.append(f"{name}: {told}, but the interval holds 1: more documents would tell")
        else:
            lines.append(f"{name}: {told}")
        lines.append(
            f"{name}, acceptance by position at K = {domain['by_k'][-1]['num_speculative_tokens']}: {positions}"
        )
        if not domain["own_text"]:
            lines.append(f"{name}: completions were given, which stand for what the target would have written")
        if domain["documents"] < NARROW:
            lines.append(f"{name}: only {domain['documents']} documents, too few to trust the intervals")
    lines.append(
        f"Speedup is (1 + K·acceptance) / (v + K·c) with v = {content['verifying_cost']:g} and "
        f"c = {content['draft_cost']:.3g} ({content['draft_cost_source']}); launching and scheduling are not in it."
    )
    return lines
