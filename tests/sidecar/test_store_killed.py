"""Real processes, killed by SIGKILL: what they had acknowledged is there, and the file is whole."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specwatch.lab.fleet import Fleet
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.store import history, schema
from tests.support.sidecars import SIDECAR, Running, sidecar

WRITER = """
import asyncio, sys
from functools import partial
from pathlib import Path
from specwatch.sidecar.store import history, references
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.views import Stretch
from specwatch.signals.window import Increments
from specwatch.vllm.metrics import Counter

async def main(path, first):
    print("opens", flush=True)
    database = Database(path)
    for number in range(first, first + 100_000):
        at = 1_800_000_000.0 + 5 * number
        did = Increments(5.0, dict.fromkeys(Counter, float(number)))
        past = [(f"gpu-{i}", Stretch(at, did, None, None, None)) for i in range(20)]
        await database.write(partial(history.save, stretches=past, now=at, most_bytes=2**30))
        await database.write(partial(references.save, states={("server", "gpu-0"): str(number)}, now=at))
        print(number, flush=True)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def killed(path: Path, first: int, after: int, seconds: float) -> int | None:
    """Let it write from number ``first`` on; kill it so long after it said so much. The last number it acknowledged."""
    command = [sys.executable, "-c", WRITER, str(path), str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(1 + after)]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    assert said[0] == "opens\n"
    numbers = [int(line) for line in said[1:] if line.endswith("\n")]
    return numbers[-1] if numbers else None


def test_whenever_it_is_killed_what_it_acknowledged_is_there(tmp_path):
    path = tmp_path / "specwatch.db"
    rng = random.Random(5)
    first, last = 0, -1
    for after in (0, 0, 1, 3, 20, 60):
        acknowledged = killed(path, first, after, rng.uniform(0, 0.03))
        last = last if acknowledged is None else acknowledged
        connection = sqlite3.connect(path, isolation_level=None)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        schema.bring_up_to_date(connection)  # it may have been killed before
        for target in ("gpu-0", "gpu-19"):
            past = history.load(connection, target, 0.0, 2e9, 1.0) or []
            numbers = [round((stretch.at - 1_800_000_000) / 5) for stretch in past]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) > last
        state = connection.execute("SELECT state FROM reference").fetchone()
        assert last < 0 or int(state[0]) >= last
        connection.close()
        first = len(numbers)
    assert first > 60


async def told(it: Running) -> Any:
    return json.loads((await it.get("/api/v1/history?target=gpu&step=1"))[1])


async def until_told(it: Running, enough: Callable[[Any], bool]) -> Any:
    for _ in range(600):
        if enough(answer := await told(it)):
            return answer
        await asyncio.sleep(0.1)
    raise AssertionError(f"never told: {answer}")


def values(answer: Any, until: float) -> dict[float, float]:
    return {point["at"]: point["generation_throughput"] for point in answer["points"] if point["at"] <= until}


def kept_values(answer: Any) -> dict[float, float]:
    return values(answer, answer["kept_until"]) if answer["kept_until"] else {}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_sidecar_that_is_killed_goes_on_with_its_past(tmp_path):
    path = tmp_path / "specwatch.db"
    async with Fleet([SimulatedServer("gpu", running=4)]) as fleet:
        words = ("--target", f"gpu={fleet.urls[0]}", "--interval", "0.5", "--listen", "127.0.0.1:0", "--database")
        async with sidecar(*words, str(path)) as it:  # killed before anything is kept
            assert (await until_told(it, lambda answer: answer["points"]))["kept_until"] is None
            assert await it.end(signal.SIGKILL) == -signal.SIGKILL
        async with sidecar(*words, str(path)) as it:  # killed when something is
            process = await asyncio.create_subprocess_exec(
                *SIDECAR, *words, path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            _, refusal = await process.communicate()
            assert (process.returncode, b"another sidecar uses it" in refusal) == (2, True)
            before = await until_told(it, lambda answer: len(kept_values(answer)) > 5)
            assert await it.end(signal.SIGKILL) == -signal.SIGKILL
        kept = kept_values(before)
        async with sidecar(*words, str(path)) as it:  # ended in order: everything is kept
            after = await until_told(it, lambda answer: answer["points"][-1]["at"] > before["points"][-1]["at"])
            found = values(after, before["kept_until"])
            # The last step may end earlier now: what came after in the same second was not kept.
            assert {at: found.get(at) for at in kept} == pytest.approx(kept)
            last = await told(it)
            assert await it.end() == 0
        async with sidecar(*words, str(path)) as it:
            assert set(values(await told(it), last["end"])) >= set(values(last, last["end"]))
            assert await it.end() == 0
