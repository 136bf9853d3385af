"""The start itself: secrets, the record for the sidecar, the sidecar's command, and vLLM under supervision."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from specwatch.errors import InputError
from specwatch.secret_files import read_secret
from specwatch.vllm import launch_record
from specwatch.vllm.arguments import option, present
from specwatch.vllm.endpoint import Endpoint, listen_address, refuse_taken
from specwatch.vllm.launch_record import LaunchRecord
from specwatch.vllm.plan import LaunchPlan
from specwatch.vllm.process import Launch, run
from specwatch.vllm.secrets import SECRET_FLAGS, moved, secret_flags
from specwatch.vllm.speculation import Note

_FILE_OPTIONS = {"--api-key": "--api-key-file", "--hf-token": "--hf-token-file"}


@dataclass(frozen=True)
class Server:
    """A vLLM to start."""

    command: tuple[str, ...]
    place: Endpoint | None
    """None: it has no TCP port of its own."""
    name: str
    """What the sidecar calls it."""
    variables: Mapping[str, str]
    """Its secrets."""


def say(text: str) -> None:
    """Show a message of the launcher among vLLM's log lines; a closed terminal is no reason to stop."""
    with suppress(OSError):
        click.echo("\n".join(f"specwatch │ {line}" for line in text.splitlines()), err=True)


def start(server: Server, record: LaunchRecord, settings: LaunchPlan) -> int:
    """Run vLLM, and the sidecar beside it, to the end; gives the exit code."""
    place = server.place
    sidecar = _sidecar_place(place, settings.sidecar_listen) if settings.sidecar else None
    if place is not None:
        refuse_taken(place, "--port", "Stop what listens there, or choose another --port.")
    with tempfile.TemporaryDirectory(prefix="specwatch-", dir=_runtime_folder()) as folder:
        file = Path(folder, "launch.json")
        launch_record.write(file, record)

        def before_restart(count: int) -> None:
            with suppress(OSError):  # a full disk keeps the sidecar uninformed, and vLLM must not wait for that
                launch_record.write(file, replace(record, started_at=time.time(), restarts=count))

        command, secrets = moved(server.command)
        launch = Launch(
            command,
            place,
            settings.ready_timeout,
            _sidecar_command(place, server.name, sidecar, file, settings.sidecar_config),
            secrets | dict(server.variables),
            settings.restarts,
            before_restart,
        )
        return run(launch, say)


def variables(settings: LaunchPlan, arguments: Sequence[str]) -> dict[str, str]:
    """The secrets for vLLM, from the files that the plan names; InputError where one is given twice."""
    files = {"--api-key": settings.api_key_file, "--hf-token": settings.hf_token_file}
    named = {flag: file for flag, file in files.items() if file is not None}
    for flag in named:
        if flag in secret_flags(arguments):
            raise InputError(f"{flag} and {_FILE_OPTIONS[flag]}: keep the file, which ps does not show")
    return {SECRET_FLAGS[flag]: read_secret(file, _FILE_OPTIONS[flag]) for flag, file in named.items()}


def exposure(arguments: Sequence[str], place: Endpoint | None, secrets: Mapping[str, str]) -> list[Note]:
    """What listening on every network means."""
    if place is None or not place.exposed:
        return []
    said = f"--host {place.bind}" if place.bind else "no --host"
    key = SECRET_FLAGS["--api-key"]
    closed = present(arguments, "--api-key") or secrets.get(key) or os.environ.get(key)
    open_to_all = "" if closed else ", without a key"
    return [
        Note(
            "--host",
            f"{said}: vLLM listens on every network of this machine{open_to_all}; --host 127.0.0.1 keeps it local",
        )
    ]


def shown_secrets(arguments: Sequence[str]) -> list[Note]:
    """A word on each secret that is on the command line: vLLM gets it out of sight, but this one was typed."""
    return [
        Note(
            flag,
            f"{flag}: every user of this machine sees it in ps; {_FILE_OPTIONS[flag]} FILE or {SECRET_FLAGS[flag]} "
            "keeps it hidden",
        )
        for flag in secret_flags(arguments)
    ]


def target_name(arguments: Sequence[str], model: str) -> str:
    """A short name for the server: what it is served as, or the last part of its model's name."""
    name = option(arguments, "--served-model-name") or model
    return re.sub(r"[^\w.-]+", "-", name.rstrip("/").rpartition("/")[2], flags=re.ASCII).strip("-") or "vllm"


def _runtime_folder() -> str | None:
    """The user's runtime folder where the system has one; None: the usual place for temporary files."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return folder if folder and os.access(folder, os.W_OK) else None


def _sidecar_place(place: Endpoint | None, listen: str) -> Endpoint | None:
    """Where the sidecar is to serve; None where there is nothing it could scrape."""
    if place is None:
        say("no sidecar: this vLLM has no TCP port to scrape")
        return None
    own = listen_address(listen, "--sidecar-listen")
    refuse_taken(own, "--sidecar-listen", "Choose another with --sidecar-listen HOST:PORT, or --no-sidecar.")
    return own


def _sidecar_command(
    place: Endpoint | None, name: str, own: Endpoint | None, record: Path, config: Path | None
) -> tuple[str, ...] | None:
    if place is None or own is None:
        return None
    listen = own.url.rpartition("/")[2]
    words = [sys.executable, "-m", "specwatch", "sidecar", "--target", f"{name}={place.url}", "--listen", listen]
    words += ["--launch-record", str(record)]
    return (*words, "--config", str(config)) if config else tuple(words)
