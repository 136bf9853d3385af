"""Options, lines and JSON of the checks that ``specwatch launch`` makes before vLLM starts."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from specwatch.errors import InputError
from specwatch.vllm.preflight import gpu, profile
from specwatch.vllm.preflight.findings import Finding, Severity, refusal
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.run import Report, examine
from specwatch.vllm.releases import Release
from specwatch.vllm.speculation import Note, Speculation

Say = Callable[[str], None]

_OPTIONS = (
    click.option(
        "--preflight/--no-preflight",
        default=True,
        help="Look at models, tokenizers and memory before anything starts; nothing is downloaded.  [default: do]",
    ),
    click.option(
        "--force", is_flag=True, help="Start although preflight expects no good of it, where vLLM would start too."
    ),
    click.option("--json", "as_json", is_flag=True, help="With --dry-run: command, findings and memory as JSON."),
    click.option("--gpu-memory", metavar="SIZE", help="Memory of one GPU, such as 80GiB, where none is found here."),
    click.option(
        "--profile-from",
        metavar="URL|FILE",
        help="A sidecar, or a file, whose acceptance by position tells what K is worth.",
    ),
)


@dataclass(frozen=True)
class Checks:
    """What the user wants of preflight."""

    preflight: bool = True
    force: bool = False
    as_json: bool = False
    gpu_memory: str | None = None
    profile_from: str | None = None

    def examine(
        self,
        release: Release,
        target: str,
        words: Sequence[str],
        speculation: Speculation | None,
        starts: bool,
        installed: bool,
    ) -> Report:
        """Look at the plan; InputError where an option of preflight cannot be read."""
        if self.as_json and starts:
            raise InputError("--json: it prints a plan; add --dry-run")
        if not self.preflight:
            return Report(())
        plan = PlannedStart(
            release=release,
            target=target,
            words=words,
            speculation=speculation,
            starts=starts,
            installed=installed,
            gpu_memory=gpu.memory_size(self.gpu_memory) if self.gpu_memory else None,
            profile=profile.read(self.profile_from) if self.profile_from else None,
            environment=os.environ,
        )
        return examine(plan)

    def tell(self, report: Report, say: Say) -> None:
        """Say what was found; InputError with every refusal that is not overruled."""
        if report.table:
            say(report.table)
        for finding in report.findings:
            if not finding.refuses:
                say(f"warning: {finding}" if finding.severity is Severity.WARNING else str(finding))
        standing = self.standing(report)
        if standing:
            raise InputError("\n".join(_standing_text(finding) for finding in standing))
        for finding in report.refusals:
            say(f"--force: goes on although {finding.code} is refused: {finding.text}")

    def standing(self, report: Report) -> list[Finding]:
        """The refusals that keep vLLM from being started."""
        return [finding for finding in report.refusals if not (self.force and finding.forcible)]

    def as_report(self, release: Release, command: str, notes: Sequence[Note], report: Report) -> str:
        """The plan as one JSON object."""
        memory = asdict(report.memory.memory) | {"share": report.memory.memory.share} if report.memory else None
        return _json(bool(self.standing(report)), report.findings, str(release), command, notes, memory)


def with_checks(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of preflight; it gets them as one ``checks``."""

    @functools.wraps(function)
    def bundled(*arguments: Any, **options: Any) -> None:
        checks = Checks(**{name: options.pop(name) for name in Checks.__dataclass_fields__})
        function(*arguments, checks=checks, **options)

    for option in reversed(_OPTIONS):
        bundled = option(bundled)
    return bundled


def refused_as_json(problem: InputError) -> str:
    """The report of a command line that cannot be planned at all."""
    return _json(True, (refusal("command-line", str(problem)),))


def _standing_text(finding: Finding) -> str:
    way = " --force starts it all the same." if finding.forcible else ""
    return f"{finding}{way}"


def _json(
    refused: bool,
    findings: Sequence[Finding],
    release: str | None = None,
    command: str | None = None,
    notes: Sequence[Note] = (),
    memory: dict[str, Any] | None = None,
) -> str:
    content = {
        "release": release,
        "command": None if refused else command,
        "refused": refused,
        "notes": [note.text for note in notes],
        "findings": [asdict(finding) for finding in findings],
        "memory": memory,
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
