"""Preparing the lab's models in a process of its own, so that the one that shows the progress stays responsive.

    python -m specwatch.lab.prepare

prints a JSON line for every bit of progress, and the folders of the models at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specwatch.errors import SpecwatchError
from specwatch.lab import models


async def prepare(report: Callable[[str, float], None]) -> models.LabModels:
    """The lab's models, trained where they are not cached. Cancelling ends the training and leaves nothing behind."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "specwatch.lab.prepare"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    folders: dict[str, str] = {}
    try:
        while process.stdout is not None and (line := await process.stdout.readline()):
            entry = json.loads(line)
            if "target" in entry:
                folders = entry
            else:
                report(entry["stage"], entry["done"])
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        await process.wait()
    if code != 0 or not folders:
        raise SpecwatchError(f"the lab's models could not be prepared (code {code}); its message is above")
    return models.LabModels(target=Path(folders["target"]), draft=Path(folders["draft"]))


def main() -> None:
    """Train, and say so in JSON lines."""

    def report(stage: str, done: float) -> None:
        print(json.dumps({"stage": f"training the {stage} model", "done": done}), flush=True)

    try:
        found = models.prepare(report=report)
    except SpecwatchError as problem:
        sys.exit(f"specwatch: {problem}")
    print(json.dumps({"target": str(found.target), "draft": str(found.draft)}))


if __name__ == "__main__":
    main()
