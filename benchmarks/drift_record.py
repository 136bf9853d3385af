"""Record what a real vLLM server counts while its traffic changes: the benchmark's real trace.

    python -m benchmarks.drift_record benchmarks/traces/lab-json-to-es.json

serves the lab's two models on the CPU with ``specwatch launch``, keeps requests under way, and reads the counters at
even intervals: the draft's own domain for an hour of intervals, then the foreign one, then its own again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specwatch.collect.asking import PATIENT
from specwatch.collect.scraper import http_session, scrape
from specwatch.collect.targets import parse
from specwatch.lab import stage
from specwatch.lab.child import free_port, running
from specwatch.lab.corpus import prompts
from specwatch.lab.models import prepare
from specwatch.measure.load import Load
from specwatch.vllm.metrics import Counter, Snapshot

CONCURRENCY = 4
"""Requests under way: a handful end in an interval, as on the quiet servers where detection is hardest."""

PROMPTS = 3000
"""Different prompts of a domain, so that none is asked twice: greedy answers would repeat to the token."""

PHASES = (("json", 260), ("es", 40), ("json", 60), ("mixed", 80))
"""Domain and intervals. 260 of them are what an hour of 15-second intervals gives a reference, and some to test it."""

COUNTED = (Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS)


@dataclass(frozen=True)
class Row:
    """Counts of one interval."""

    domain: str
    seconds: float
    counts: tuple[float, ...]


def asked(domain: str) -> list[str]:
    """Prompts of a domain; ``mixed`` is one foreign prompt in four."""
    if domain != "mixed":
        return prompts(domain, PROMPTS, seed=2)
    home, foreign = prompts("json", PROMPTS, seed=3), prompts("es", PROMPTS, seed=3)
    return [foreign[i] if i % 4 == 3 else home[i] for i in range(PROMPTS)]


def totals(snapshot: Snapshot) -> tuple[float, ...]:
    """The counters that detectors are fed, of the server's only engine."""
    (engine,) = snapshot.engines.values()
    return tuple(engine.counters[counter] for counter in COUNTED)


async def record(interval: float) -> list[Row]:
    """Serve, ask, and read the counters every ``interval`` seconds."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "specwatch", "launch", "--no-sidecar", *stage.vllm_arguments(prepare(), port)]
    with tempfile.TemporaryDirectory() as folder:
        async with running("vLLM", command, Path(folder) / "vllm.log", stage.CPU_ENVIRONMENT) as child:
            await child.until_healthy(f"{url}/health", 600.0, lambda seconds: None)
            load = Load(url, stage.SERVED_NAME, asked(PHASES[0][0]), CONCURRENCY, stage.MAX_TOKENS)
            sending = asyncio.create_task(load.run(seconds=stage.LONGEST_SHOW))
            try:
                return await _watch(url, load, interval)
            finally:
                load.stop()
                await sending


async def _watch(url: str, load: Load, interval: float) -> list[Row]:
    rows: list[Row] = []
    target = parse(url)
    async with http_session() as session:
        await asyncio.sleep(5 * interval)  # the first answers warm the server up
        at, before = time.monotonic(), totals(await scrape(session, target, PATIENT))
        for domain, intervals in PHASES:
            load.use(asked(domain))
            for _ in range(intervals):
                await asyncio.sleep(max(0.0, at + interval - time.monotonic()))
                now, after = time.monotonic(), totals(await scrape(session, target, PATIENT))
                rows.append(Row(domain, now - at, tuple(b - a for a, b in zip(before, after, strict=True))))
                at, before = now, after
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between two readings")
    options = parser.parse_args(arguments)
    rows = asyncio.run(record(options.interval))
    lines = [json.dumps([row.domain, round(row.seconds, 3), *row.counts]) for row in rows]
    columns = json.dumps(["domain", "seconds", "drafts", "draft_tokens", "accepted"])
    options.output.write_text(f'{{"columns": {columns},\n"rows": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
