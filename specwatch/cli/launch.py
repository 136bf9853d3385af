"""``specwatch launch``: start vLLM with speculation in its release's own terms, and the sidecar beside it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from specwatch.cli.launch_plan import limited, put_together, slips
from specwatch.cli.launch_preflight import Checks, refused_as_json, with_checks
from specwatch.errors import InputError
from specwatch.vllm import installed, launch_record
from specwatch.vllm.arguments import option, present, read
from specwatch.vllm.endpoint import Endpoint, endpoint, listen_address, refuse_taken
from specwatch.vllm.process import Launch, run
from specwatch.vllm.releases import Release
from specwatch.vllm.secrets import SECRET_FLAGS, secret_flags, shell_line
from specwatch.vllm.speculation import Note
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

Ends with vLLM's exit code. SIGTERM and Ctrl-C are passed on to vLLM; a second one kills it.
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
        calibration.refuse_another(target, translation.speculation)
    place = endpoint(arguments)
    vllm_command, start_notes = installed.start_command(vllm, arguments)
    remarks = (*start_notes, *_exposure(arguments, place), *_secrets(arguments))
    notes = (*slips(option.name or "" for option in ctx.command.params), *translation.notes, *remarks)
    for note in notes:
        _say(note.text)
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
    checks.tell(report, _say)
    if dry_run:
        click.echo(shell_line(vllm_command))
        return
    sidecar = _sidecar_place(place, settings.sidecar_listen) if settings.sidecar else None
    if place is not None:
        refuse_taken(place, "--port", "Stop what listens there, or choose another --port.")
    with tempfile.TemporaryDirectory(prefix="specwatch-", dir=_runtime_folder()) as folder:
        record = Path(folder, "launch.json")
        launch_record.write(record, launch_record.record_of(release, target, translation.speculation, time.time()))
        _say(f"vLLM {release} ({vllm.distribution}): {shell_line(vllm_command)}")
        launch = Launch(
            vllm_command,
            place,
            settings.ready_timeout,
            _sidecar_command(place, _target_name(arguments, target), sidecar, record, settings.sidecar_config),
        )
        code = run(launch, _say)
    ctx.exit(code)


def _say(text: str) -> None:
    """Show a message of the launcher among vLLM's log lines; a closed terminal is no reason to stop."""
    with suppress(OSError):
        click.echo("\n".join(f"specwatch │ {line}" for line in text.splitlines()), err=True)


def _exposure(arguments: Sequence[str], place: Endpoint | None) -> list[Note]:
    """What listening on every network means."""
    if place is None or not place.exposed:
        return []
    said = f"--host {place.bind}" if place.bind else "no --host"
    open_to_all = "" if present(arguments, "--api-key") or os.environ.get("VLLM_API_KEY") else ", without a key"
    return [
        Note(
            "--host",
            f"{said}: vLLM listens on every network of this machine{open_to_all}; --host 127.0.0.1 keeps it local",
        )
    ]


def _secrets(arguments: Sequence[str]) -> list[Note]:
    return [
        Note(flag, f"{flag}: every user of this machine sees it in ps; set {SECRET_FLAGS[flag]} instead")
        for flag in secret_flags(arguments)
    ]


def _runtime_folder() -> str | None:
    """The user's runtime folder where the system has one; None: the usual place for temporary files."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return folder if folder and os.access(folder, os.W_OK) else None


def _sidecar_place(place: Endpoint | None, listen: str) -> Endpoint | None:
    """Where the sidecar is to serve; None where there is nothing it could scrape."""
    if place is None:
        _say("no sidecar: this vLLM has no TCP port to scrape")
        return None
    own = listen_address(listen, "--sidecar-listen")
    refuse_taken(own, "--sidecar-listen", "Choose another with --sidecar-listen HOST:PORT, or --no-sidecar.")
    return own


def _target_name(arguments: Sequence[str], model: str) -> str:
    """A short name for the server: what it is served as, or the last part of its model's name."""
    name = option(arguments, "--served-model-name") or model
    return re.sub(r"[^\w.-]+", "-", name.rstrip("/").rpartition("/")[2], flags=re.ASCII).strip("-") or "vllm"


def _sidecar_command(
    place: Endpoint | None, name: str, own: Endpoint | None, record: Path, config: Path | None
) -> tuple[str, ...] | None:
    if place is None or own is None:
        return None
    listen = own.url.rpartition("/")[2]
    words = [sys.executable, "-m", "specwatch", "sidecar", "--target", f"{name}={place.url}", "--listen", listen]
    words += ["--launch-record", str(record)]
    return (*words, "--config", str(config)) if config else tuple(words)
