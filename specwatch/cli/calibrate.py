"""``specwatch calibrate``: measure what speculation is worth, with servers that do it and one that does not."""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from specwatch.cli.calibrate_launch import InTurn, read_plan
from specwatch.cli.calibrate_screen import Screen, screen, show
from specwatch.cli.launch_plan import put_together
from specwatch.cli.running import ENDING, cancelled_by, run
from specwatch.errors import InputError, SpecwatchError
from specwatch.measure.calibration.blocks import MIN_TOKENS, Design
from specwatch.measure.calibration.calibrate import Calibrator, Fixed, Servers
from specwatch.measure.calibration.html import report
from specwatch.measure.calibration.load import asking_session
from specwatch.measure.calibration.partial import Partial
from specwatch.measure.calibration.result import Result, Subject, as_text, concluded, write
from specwatch.measure.calibration.servers import Identity, identify
from specwatch.measure.prompt_sets import BUILT_IN, domain
from specwatch.secret_files import read_secret
from specwatch.vllm import installed
from specwatch.vllm.arguments import read
from specwatch.vllm.device import device_name
from specwatch.vllm.plan import LaunchPlan
from specwatch.vllm.speculation import Speculation
from specwatch.vllm.translation import translate

EXIT_INTERRUPTED = 130
"""As shells have it after Ctrl-C."""

HELP = """Measure what speculation is worth: the same prompts on servers with it and on one without.

\b
  specwatch calibrate --baseline http://127.0.0.1:8000 --speculative http://127.0.0.1:8001
  specwatch calibrate --launch plan.yaml --k 3 --k 5

At 1, 2, 4 … requests at a time, by domain, repeated, servers taking turns. Writes a calibration, which launch and the
sidecar take, and a report beside it with the curves. Servers must serve nobody else meanwhile. What was measured is
kept beside the result: after Ctrl-C or a failure the same command goes on from there.

Exit code: 0 measured, 1 a server failed, 2 input that cannot be used or too little to conclude, 130 interrupted.
"""


@click.command("calibrate", help=HELP, context_settings={"show_default": True})
@click.option("--baseline", metavar="URL", help="The server without speculation.")
@click.option("--speculative", multiple=True, metavar="URL", help="A server with it; again for another K.")
@click.option(
    "--launch", "plan_file", type=click.Path(path_type=Path), metavar="PLAN", help="Start all of them in turn."
)
@click.option(
    "--k", "ks", type=click.IntRange(1, 64), multiple=True, metavar="K", help="With --launch; again for more."
)
@click.option(
    "--domain",
    "domains",
    multiple=True,
    default=BUILT_IN,
    metavar="NAME[=FILE.jsonl]",
    help="Prompts: a built-in set, or a file with a prompt a line.",
)
@click.option(
    "--share", multiple=True, metavar="NAME=N", help="Weight of a domain in the recommendation.  [default: 1]"
)
@click.option("--max-concurrency", type=click.IntRange(1, 4096), default=Design.max_concurrency, metavar="N")
@click.option("--temperature", type=click.FloatRange(0, 2), multiple=True, default=Design.temperatures, metavar="T")
@click.option(
    "--repetitions", type=click.IntRange(2, 100), default=Design.repetitions, metavar="N", help="Turns of each."
)
@click.option(
    "--requests", type=click.IntRange(1), default=Design.requests, metavar="N", help="Answers a turn, at least."
)
@click.option(
    "--max-tokens", type=click.IntRange(2), default=Design.max_tokens, metavar="N", help="Tokens of an answer."
)
@click.option("--output", type=click.Path(path_type=Path), default=Path("calibration.json"), metavar="FILE")
@click.option("--method", help="How the servers draft, which their pages do not say.")
@click.option("--draft", metavar="MODEL", help="With what, likewise.")
@click.option("--gpu", metavar="NAME", help="On what, likewise; found out with --launch.")
@click.option("--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the servers' key.")
def command(
    baseline: str | None,
    speculative: tuple[str, ...],
    plan_file: Path | None,
    ks: tuple[int, ...],
    domains: tuple[str, ...],
    share: tuple[str, ...],
    max_concurrency: int,
    temperature: tuple[float, ...],
    repetitions: int,
    requests: int,
    max_tokens: int,
    output: Path,
    **known: Any,
) -> None:
    """Measure, conclude, write."""
    if (plan_file is None) == (baseline is None or not speculative) or (plan_file and (baseline or speculative)):
        raise InputError("name the servers: --baseline URL and --speculative URL, or --launch PLAN to start them")
    if ks and plan_file is None:
        raise InputError("--k: servers that run have their K already; it goes with --launch")
    if output.suffix == ".html":
        raise InputError(f"--output {output}: the report goes there; name the calibration, such as calibration.json")
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: no folder {output.parent}")
    sets = tuple(domain(text) for text in domains)
    shares = _shares(share, [each.name for each in sets])
    design = Design(
        domains=sets,
        ks=(1,),
        max_concurrency=max_concurrency,
        temperatures=tuple(sorted(set(temperature))),
        repetitions=repetitions,
        requests=requests,
        max_tokens=max_tokens,
    )
    key_file = known.pop("api_key_file")
    key = read_secret(key_file, "--api-key-file") if key_file else None
    console = Console(stderr=True)
    if plan_file is not None:
        task = _launched(plan_file, design, ks, known)
    else:
        task = run(_running(str(baseline), speculative, design, key, known))
    result = _measured(task, shares, output, key, console)
    page = output.with_suffix(".html")
    write(output, as_text(result))
    write(page, report(result))
    task.partial(output).remove()
    show(Console(), result)
    click.echo(f"Written: {output} and {page}")
    if result.short:
        raise InputError(_too_few(result))


@dataclass(frozen=True)
class Task:
    """What is to be measured, and where."""

    subject: Subject
    design: Design
    about: dict[str, Any]
    """What must be the same to go on with a measurement."""
    urls: dict[int, str]
    plan: LaunchPlan | None

    def partial(self, output: Path) -> Partial:
        """What is measured already."""
        return Partial(output.with_name(output.name + ".partial"), self.about)


def _launched(file: Path, design: Design, ks: Sequence[int], known: dict[str, Any]) -> Task:
    """Servers that are to be started."""
    plan = read_plan(file)
    chosen = tuple(sorted(set(ks))) or ((plan.num_speculative_tokens,) if plan.num_speculative_tokens else ())
    if not chosen:
        raise InputError(f"--launch {file}: it names no num_speculative_tokens: add --k K")
    design = replace(design, ks=chosen, in_turn=True)
    release = installed.find().release
    _, line = put_together(read(("--num-speculative-tokens", str(chosen[-1]))), file, {}, ())
    drafting = translate(line, release).speculation or Speculation()
    subject = Subject(
        target=str(plan.target),
        method=drafting.method,
        draft=drafting.model,
        vllm=str(release),
        gpu=known["gpu"] or device_name(),
    )
    digest = hashlib.sha256(plan.model_dump_json(exclude_unset=True).encode()).hexdigest()[:16]
    return Task(subject, design, design.description() | {"plan": digest}, {}, plan)


async def _running(
    baseline: str, speculative: Sequence[str], design: Design, key: str | None, known: dict[str, Any]
) -> Task:
    """Servers that run; what their pages say."""
    async with asking_session(key) as session:
        plain = await identify(session, baseline, "")
        found = [await identify(session, url, "") for url in speculative]
    for each in found:
        if not each.positions:
            raise InputError(f"{each.url}: it does not speculate: its page has no counters of drafts")
    urls = {each.positions: each.url for each in found}
    if len(urls) < len(found) or plain.url in urls.values():
        raise InputError("two of the servers are the same, or draft the same number of tokens: one each")
    design = replace(design, ks=tuple(sorted(urls)))
    about = design.description() | {"model": plain.model, "vllm": plain.release}
    subject = Subject(plain.model, known["method"], known["draft"], plain.release, known["gpu"])
    return Task(subject, design, about, {0: plain.url} | urls, None)


def _measured(task: Task, shares: dict[str, float], output: Path, key: str | None, console: Console) -> Result:
    """Measure what is not measured yet; a failure says what is kept."""
    partial = task.partial(output)
    total = len(task.design.blocks())
    try:
        with screen(console, task.design, partial.runs) as shown:
            identities = asyncio.run(cancelled_by(ENDING, _measure(task, partial, output, key, shown)))
    except (asyncio.CancelledError, KeyboardInterrupt):
        click.echo(f"specwatch: interrupted. {_kept(partial, total)}", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except SpecwatchError as problem:
        raise type(problem)(f"{problem}\n  {_kept(partial, total)}") from None
    release = next((each.release for each in identities if each.release), task.subject.vllm)
    return concluded(replace(task.subject, vllm=release), task.design, shares, partial.runs, time.time())


def _kept(partial: Partial, total: int) -> str:
    return f"{len(partial.runs)} of {total} blocks are kept in {partial.path}; the same command goes on from there."


async def _measure(task: Task, partial: Partial, output: Path, key: str | None, shown: Screen) -> Sequence[Identity]:
    async with _servers(task, output, shown) as servers:
        calibrator = Calibrator(task.design, servers, partial, shown.block, key)
        await calibrator.run()
    return list(calibrator.identities.values())


@asynccontextmanager
async def _servers(task: Task, output: Path, shown: Screen) -> AsyncIterator[Servers]:
    if task.plan is None:
        yield Fixed(task.urls)
        return
    with tempfile.TemporaryDirectory(prefix="specwatch-") as folder:
        async with InTurn(task.plan, Path(folder), shown.waiting) as servers:
            yield servers


def _shares(texts: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """Each domain's share of the tokens, all of them adding up to 1."""
    weights = dict.fromkeys(names, 1.0)
    for text in texts:
        name, _, number = text.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = -1.0
        if name not in weights or not 0 <= weight < 1e9:
            raise InputError(f"--share {text}: NAME=N is needed, NAME one of {', '.join(names)}, N a number from 0 on")
        weights[name] = weight
    total = sum(weights.values())
    if total == 0:
        raise InputError("--share: all domains have weight 0")
    return {name: weight / total for name, weight in weights.items()}


def _too_few(result: Result) -> str:
    short = result.short[0]
    cell = short.cell
    return (
        f"too few tokens to conclude anything: {cell.domain} at concurrency {cell.concurrency} has {short.tokens} with "
        f"and {short.baseline_tokens} without speculation, {MIN_TOKENS} are needed; raise --requests or --repetitions"
    )
