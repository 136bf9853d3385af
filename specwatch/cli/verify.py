"""``specwatch verify``: whether speculation is lossless on a running server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from specwatch.cli import verify_report
from specwatch.cli.running import run
from specwatch.collect.targets import Target, parse
from specwatch.errors import InputError
from specwatch.measure import prompt_sets
from specwatch.measure.losslessness import NEAR_TIE, Limits, Verdict
from specwatch.measure.verify import (
    COLDEST,
    FEWEST_TOKENS,
    HOTTEST,
    MOST_TOKENS,
    TEMPERATURES,
    Plan,
    Report,
    Result,
    built_in_prompts,
    verify,
)
from specwatch.measure.verify_asking import Server
from specwatch.secret_files import read_secret

EXIT_CODES = {Verdict.SOUND: 0, Verdict.DISTORTED: 1, Verdict.INCONCLUSIVE: 2}
EXIT_INTERRUPTED = 130
"""As shells have it after Ctrl-C."""


@click.command("verify", context_settings={"show_default": True})
@click.argument("url")
@click.option(
    "--temperature",
    "temperatures",
    type=click.FloatRange(0, HOTTEST),
    multiple=True,
    default=TEMPERATURES,
    metavar="T",
    help="Sampling temperature to test; repeat for more.",
)
@click.option(
    "--tokens",
    type=click.IntRange(FEWEST_TOKENS, MOST_TOKENS),
    default=1000,
    metavar="N",
    help="Tokens to test at each temperature, at most.",
)
@click.option("--prompts", type=click.Path(path_type=Path), metavar="FILE.jsonl", help="Prompts in place of our own.")
@click.option("--model", metavar="NAME", help="Served model name.  [default: the first one]")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE", help="File holding the API key.")
@click.option("--answer-tokens", type=click.IntRange(8, 1024), default=64, metavar="N", help="Tokens of an answer.")
@click.option("--concurrency", type=click.IntRange(1, 32), default=4, metavar="N", help="Requests under way at once.")
@click.option(
    "--error-rate",
    type=click.FloatRange(1e-9, 0.2),
    default=0.001,
    metavar="P",
    help="Highest probability of calling a lossless server distorted.",
)
@click.option(
    "--resolution",
    type=click.FloatRange(0.01, 0.5),
    default=0.1,
    metavar="SHARE",
    help="Change of the share of likeliest tokens that a sound verdict excludes.",
)
@click.option(
    "--near-tie",
    type=click.FloatRange(0, 5),
    default=NEAR_TIE,
    metavar="NATS",
    help="Lead of the likeliest token that rounding may turn round, at temperature 0.",
)
@click.option("--timeout", type=click.FloatRange(1, 3600), default=120.0, metavar="SECONDS", help="For a request.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(
    url: str,
    temperatures: tuple[float, ...],
    tokens: int,
    prompts: Path | None,
    model: str | None,
    token_file: Path | None,
    answer_tokens: int,
    concurrency: int,
    error_rate: float,
    resolution: float,
    near_tie: float,
    timeout: float,
    as_json: bool,
) -> None:
    """Say whether the vLLM server at URL writes what its model says, speculation or not.

    The server writes text as it always does, then scores that text in a prefill, where nothing is speculated. At
    temperature 0 every token has to be the likeliest; above, the text has to be as surprising as the scores say. A
    wrong rejection sampler, a wrong temperature or a draft that is trusted too much shows within some hundred tokens.

    Exit code: 0 sound at all temperatures, 1 distorted at one or more, 2 not verified (bad input, a server that cannot
    be asked, too few tokens, nothing drafted).
    """
    plan = Plan(
        prompts=_prompts(prompts),
        temperatures=_checked(temperatures),
        tokens=tokens,
        answer_tokens=answer_tokens,
        concurrency=concurrency,
        limits=Limits(error_rate=error_rate, resolution=resolution, near_tie=near_tie),
    )
    token = read_secret(token_file, "--token-file") if token_file else None
    try:
        report = run(_run(Server(_target(url), model, token, timeout), plan))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    if as_json:
        click.echo(json.dumps(verify_report.as_json(report), indent=2))
    else:
        click.echo(verify_report.as_text(report))
    if report.problem:
        click.echo(f"specwatch: {report.problem}", err=True)
    sys.exit(EXIT_CODES[report.verdict])


async def _run(server: Server, plan: Plan) -> Report:
    progress = _Progress()
    async with server:
        try:
            return await verify(server, plan, progress.tell)
        finally:
            progress.end()


class _Progress:
    """How far it is, on standard error: one line that changes on a terminal, a line a temperature elsewhere."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._told: float | None = None

    def tell(self, result: Result, plan: Plan) -> None:
        """After each round of requests."""
        reading = result.reading
        if self._live:
            line = f"\rtemperature {reading.temperature:g}: {reading.tokens} of {plan.tokens} tokens\033[K"
            click.echo(line, err=True, nl=False)
        elif reading.temperature != self._told:
            click.echo(f"temperature {reading.temperature:g}: asking for {plan.tokens} tokens", err=True)
        self._told = reading.temperature

    def end(self) -> None:
        """Take the line away."""
        if self._live:
            click.echo("\r\033[K", err=True, nl=False)


def _prompts(file: Path | None) -> tuple[str, ...]:
    return prompt_sets.read(file, f"--prompts {file}") if file else built_in_prompts()


def _checked(temperatures: tuple[float, ...]) -> tuple[float, ...]:
    """Each once; InputError for one that vLLM would change."""
    for temperature in temperatures:
        if not (temperature == 0 or temperature >= COLDEST):  # NaN is neither
            raise InputError(f"--temperature {temperature:g}: 0 is possible, or from {COLDEST:g}, vLLM's least, on")
    return tuple(dict.fromkeys(temperatures))


def _target(url: str) -> Target:
    try:
        return parse(url)
    except InputError as problem:
        raise click.BadParameter(str(problem), param_hint="URL") from None
