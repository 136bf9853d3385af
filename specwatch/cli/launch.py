"""``specwatch launch``: start vLLM with speculation in its release's own terms, and the sidecar beside it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from specwatch.cli.launch_plan import limited, put_together, slips
from specwatch.cli.launch_preflight import Checks, refused_as_json, with_checks
from specwatch.cli.launch_start import Server, exposure, say, shown_secrets, start, target_name, variables
from specwatch.errors import InputError
from specwatch.vllm import installed
from specwatch.vllm.arguments import read
from specwatch.vllm.device import device_name
from specwatch.vllm.endpoint import endpoint
from specwatch.vllm.launch_record import record_of
from specwatch.vllm.releases import Release
from specwatch.vllm.secrets import shell_line
from specwatch.vllm.translation import target_model, translate

HELP = """Start vLLM, and a sidecar that watches it.

Every other option is vLLM's and is passed on in its place. Flags on speculation may be those of any release
(--speculative-model, --speculative-config, --spec-tokens, ...): they are written the way the installed release wants
them, every change is said, and what cannot work there is refused before anything starts. What follows -- goes to
vLLM unread.

\b
  specwatch launch --model meta-llama/Llama-3.1-70B-Instruct \\
    --tensor-parallel-size 4 --num-speculative-tokens 5 \\
    --speculative-model meta-llama/Llama-3.2-1B-Instruct

The same as a plan, in names that hold for every release (examples/launch):

\b
  target: meta-llama/Llama-3.1-70B-Instruct
  draft: meta-llama/Llama-3.2-1B-Instruct
  num_speculative_tokens: 5
  vllm: {tensor-parallel-size: 4}

Every key of a plan may also be an environment variable, SPECWATCH_LAUNCH_ and its name in upper case:
SPECWATCH_LAUNCH_DRAFT. Options win over variables, both over the plan.

Ends with vLLM's exit code. SIGTERM and Ctrl-C are passed on to vLLM; a second one kills it. With --restart on-failure
vLLM is started again when it ends unasked, and the code is never 0 then. Runs as a container's first process, and tells
systemd when vLLM is ready (examples/launch/specwatch-vllm.service).
"""
OWN_NAMES = ("target", "draft", "method")
"""Options that mean what flags of vLLM mean too."""
_VERBATIM = "specwatch.verbatim"


class _PassingOn(click.Command):
    """Takes its own options and leaves vLLM's alone; what follows ``--`` is not even read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set aside what follows ``--``, then parse the rest."""
        if "--" in args:
            ctx.meta[_VERBATIM] = args[args.index("--") + 1 :]
            args = args[: args.index("--")]
        return super().parse_args(ctx, ["--help"] if args == ["-h"] else args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run; with ``--json`` a refusal is JSON as well."""
        try:
            return super().invoke(ctx)
        except InputError as problem:
            if not ctx.params.get("as_json"):
                raise
            click.echo(refused_as_json(problem))
            ctx.exit(problem.exit_code)


@click.command(
    "launch",
    cls=_PassingOn,
    # No short options of our own: they would be found inside vLLM's, such as -dph.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": ["--help"]},
    help=HELP,
    options_metavar="[OPTIONS OF SPECWATCH AND OF VLLM]",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="")
@click.option("--plan", type=click.Path(path_type=Path), metavar="FILE", help="Launch plan in YAML.")
@click.option("--target", metavar="MODEL", help="The model to serve: vLLM's --model.")
@click.option("--draft", metavar="MODEL", help="The draft model, or the head that drafts.")
@click.option("--method", help="How to draft; specwatch methods lists them.  [default: found out from the draft]")
@click.option(
    "--max-spec-concurrency",
    type=click.IntRange(min=1),
    metavar="N",
    help="Draft less as more requests run, and nothing beyond N of them.",
)
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draft as many tokens at each batch size as were measured to pay.",
)
@click.option("--dry-run", is_flag=True, help="Print vLLM's command on one line instead of starting it.")
@click.option("--vllm-version", metavar="X", help="Plan for this release instead of the installed one.")
@click.option(
    "--ready-timeout",
    type=float,
    metavar="SECONDS",
    help="Stop vLLM when it has not answered /health after this time.  [default: 1800]",
)
@click.option("--sidecar/--no-sidecar", default=None, help="Start a sidecar, or vLLM alone.  [default: sidecar]")
@click.option("--sidecar-listen", metavar="HOST:PORT", help="Where the sidecar serves.  [default: 127.0.0.1:9108]")
@click.option(
    "--sidecar-config", type=click.Path(path_type=Path), metavar="FILE", help="The sidecar's --config: alerts, pace."
)
@click.option(
    "--restart",
    type=click.Choice(["never", "on-failure"]),
    help="Start vLLM again when it ends unasked, with whatever code.  [default: never]",
)
@click.option("--max-restarts", type=int, metavar="N", help="Starts again in a row before giving up.  [default: 5]")
@click.option(
    "--restart-delay",
    type=float,
    metavar="SECONDS",
    help="Pause before the first of them; every next one is twice as long, up to 300.  [default: 10]",
)
@click.option(
    "--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the key that clients must show."
)
@click.option(
    "--hf-token-file", type=click.Path(path_type=Path), metavar="FILE", help="File with the token for Hugging Face."
)
@with_checks
@click.pass_context
def command(
    ctx: click.Context, /, words: tuple[str, ...], plan: Path | None, dry_run: bool, checks: Checks, **flags: Any
) -> None:
    """Put together, translate, check, start, supervise."""
    typed = [key for key in OWN_NAMES if ctx.get_parameter_source(key) is ParameterSource.COMMANDLINE]
    settings, line = put_together(read(words), plan, flags, typed)
    line, calibration = limited(line, settings)
    version = settings.vllm_version
    vllm = installed.planned(version) if version and dry_run else installed.find()
    release = Release.parse(version) if version else vllm.release
    translation = translate(line, release)
    arguments = (*translation.arguments, *ctx.meta.get(_VERBATIM, ()))
    target = target_model(arguments)
    if target is None:
        raise InputError("no model to serve: add --model NAME, a folder or a repository")
    if calibration is not None and translation.speculation is not None:
        gpu = None if dry_run else device_name()  # a dry run may be for another machine
        calibration.refuse_another(target, translation.speculation, gpu)
    place = endpoint(arguments)
    secrets = variables(settings, arguments)
    vllm_command, start_notes = installed.start_command(vllm, arguments)
    remarks = (*start_notes, *exposure(arguments, place, secrets), *shown_secrets(arguments))
    notes = (*slips(option.name or "" for option in ctx.command.params), *translation.notes, *remarks)
    for note in notes:
        say(note.text)
    report = checks.examine(
        release,
        target,
        arguments,
        translation.speculation,
        starts=not dry_run,
        installed=not (version and dry_run),
    )
    if checks.as_json:
        click.echo(checks.as_report(release, shell_line(vllm_command), notes, report))
        ctx.exit(InputError.exit_code if checks.standing(report) else 0)
    checks.tell(report, say)
    if dry_run:
        click.echo(shell_line(vllm_command))
        return
    record = record_of(release, target, translation.speculation, time.time())
    say(f"vLLM {release} ({vllm.distribution}): {shell_line(vllm_command)}")
    ctx.exit(start(Server(vllm_command, place, target_name(arguments, target), secrets), record, settings))
