"""Does a calibration hold? On real vLLM with the lab's models: measure it, then check it on traffic it never saw.

    VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 python -m benchmarks.calibration --output calibration-lab

Four tables: the calibration itself; a second one on other prompts, and how many cells lie outside each other's
intervals; traffic of mixed domains and concurrency, with the speedup that costs and counters give (``calibrated``)
beside the one measured on the spot against the server without speculation; and the recommended schedule, launched,
beside drafting always and never. A quarter of an hour on two cores. ``--quick`` is the same on a few prompts.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import aiohttp
from rich.console import Console

from specwatch.cli.calibrate_launch import InTurn
from specwatch.cli.calibrate_screen import show
from specwatch.lab import corpus
from specwatch.lab.models import prepare
from specwatch.lab.stage import SERVED_NAME
from specwatch.measure.calibrate import Calibrator, Fixed
from specwatch.measure.calibrate_blocks import Block, Cell, Design
from specwatch.measure.calibrate_html import report
from specwatch.measure.calibrate_load import asking_session
from specwatch.measure.calibrate_partial import Partial
from specwatch.measure.calibrate_result import Result, Subject, as_text, concluded, write
from specwatch.measure.calibrate_runs import Run, measure
from specwatch.measure.calibrate_servers import Identity
from specwatch.measure.calibrate_stats import Estimate, ratio_of
from specwatch.measure.prompt_sets import PromptSet
from specwatch.signals.cost import CostCurve
from specwatch.signals.speedup import SpeedupKind
from specwatch.signals.window import Increments
from specwatch.signals.worth import Basis, assess
from specwatch.vllm.device import device_name
from specwatch.vllm.metrics import Counter
from specwatch.vllm.plan import LaunchPlan

KS = (3, 5)
SHARES = {"json": 0.5, "code": 0.4, "es": 0.1}
"""Traffic that the recommendation is for: the draft's own with a little that it was not made for."""
MIXES = (
    # shares of json, code and es, and requests at a time: between the calibrated ones as well as on them
    *((1.0, 0.0, 0.0, 3), (0.7, 0.3, 0.0, 2), (0.5, 0.4, 0.1, 6), (0.5, 0.0, 0.5, 4), (0.2, 0.2, 0.6, 3)),
    *((0.0, 0.0, 1.0, 5), (0.0, 1.0, 0.0, 8), (0.3, 0.3, 0.4, 7), (0.8, 0.0, 0.2, 1), (0.1, 0.1, 0.8, 8)),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    max_concurrency: int = 8
    repetitions: int = 4
    requests: int = 8
    max_tokens: int = 100
    mixes: int = len(MIXES)
    turns: int = 4
    """Repetitions of each mix, and of each load under the schedule."""


QUICK = Size(max_concurrency=2, repetitions=2, requests=4, max_tokens=64, mixes=1, turns=2)


def prompt_sets(seed: int, count: int = 160) -> tuple[PromptSet, ...]:
    """The lab's three kinds of text."""
    return tuple(PromptSet(name, tuple(corpus.prompts(name, count, seed))) for name in SHARES)


def mixed(shares: Sequence[float], seed: int) -> PromptSet:
    """Prompts of all kinds by their shares, shuffled."""
    sets = prompt_sets(seed)
    prompts = [
        prompt for each, share in zip(sets, shares, strict=True) for prompt in each.prompts[: round(100 * share)]
    ]
    random.Random(seed).shuffle(prompts)  # noqa: S311 -- repeatable is the point
    return PromptSet("mixed", tuple(prompts))


def predicted(run: Run, curve: CostCurve) -> float | None:
    """The speedup that a sidecar with this calibration shows for what the server counted."""
    counted = Increments(run.seconds, run.counts, run.accepted_per_position)
    known = assess([counted], Basis(curve=curve), min_drafts=1)
    return next((each.value for each in known if each.kind is SpeedupKind.CALIBRATED), None)


class Bench:
    """The running servers, by K; 0 is the baseline, and -1 the one with the schedule."""

    def __init__(self, identities: Mapping[int, Identity], session: aiohttp.ClientSession, size: Size) -> None:
        self.identities = identities
        self.session = session
        self.size = size

    async def turns(self, prompts: PromptSet, concurrency: int, ks: Sequence[int]) -> dict[int, list[Run]]:
        """The same prompts on each of these servers, taking turns; other prompts every turn."""
        design = Design(
            (prompts,), (1,), concurrency, (0.0,), self.size.turns, self.size.requests, self.size.max_tokens
        )
        found: dict[int, list[Run]] = {k: [] for k in ks}
        for turn in range(self.size.turns):
            for k in ks if turn % 2 == 0 else ks[::-1]:
                block = Block(turn, max(k, 0) or (1 if k else 0), Cell(prompts.name, 0.0, concurrency))
                salt = secrets.token_hex(8)
                found[k].append(await measure(self.session, design, block, self.identities[k], salt))
        return found

    async def prediction(self, curve: CostCurve) -> None:
        """The third table."""
        print("\nFresh traffic: calibrated by counters, and measured on the spot", flush=True)
        print("json  code  es   conc.  K  calibrated  measured  95 % interval   off by", flush=True)
        errors = []
        wrong = 0
        for number, (*shares, concurrency) in enumerate(MIXES[: self.size.mixes]):
            concurrency = min(concurrency, self.size.max_concurrency)
            runs = await self.turns(mixed(shares, seed=100 + number), concurrency, (0, *KS))
            for k in KS:
                told = [value for run in runs[k] if (value := predicted(run, curve)) is not None]
                known = ratio_of(told).value
                spot = _speedup(runs[0], runs[k])
                error = known / spot.value - 1
                errors.append(abs(error))
                wrong += spot.above_one is not None and (known > 1) != spot.above_one
                mix = "  ".join(f"{share:4.0%}" for share in shares)
                interval = _interval(spot)
                print(
                    f"{mix}  {concurrency:4}  {k}  {known:9.2f}  {spot.value:8.2f}  {interval:>13}  {error:+7.1%}",
                    flush=True,
                )
        print(
            f"median error {median(errors):.1%}, largest {max(errors):.1%}; on the wrong side of 1 beyond the noise: "
            f"{wrong} of {len(errors)}"
        )

    async def schedule(self, result: Result, always: int) -> None:
        """The fourth table: with K by the schedule, ÷ the better of drafting always and never."""
        print(f"\nThe recommended schedule, launched; always is K {always}", flush=True)
        print("conc.  scheduled K  always ÷ off  scheduled ÷ off  scheduled ÷ better  95 % interval", flush=True)
        prompts = mixed([SHARES[name] for name in SHARES], seed=200)
        for concurrency in result.design.ladder:
            runs = await self.turns(prompts, concurrency, (0, always, -1))
            drafting, scheduled = _speedup(runs[0], runs[always]), _speedup(runs[0], runs[-1])
            better = always if drafting.value > 1 else 0
            against = _speedup(runs[better], runs[-1])
            counts = [run.counts for run in runs[-1]]
            k = sum(each.get(Counter.DRAFT_TOKENS, 0) for each in counts) / sum(
                each[Counter.DECODE_STEPS] for each in counts
            )
            print(
                f"{concurrency:4}  {k:11.1f}  {drafting.value:12.2f}  {scheduled.value:15.2f}  {against.value:18.2f}  "
                f"{_interval(against):>13}",
                flush=True,
            )


def _speedup(before: Sequence[Run], after: Sequence[Run]) -> Estimate:
    return ratio_of([one.tpot / other.tpot for one, other in zip(before, after, strict=True)])


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.2f} to {estimate.high:.2f}"


def agreement(one: Result, other: Result) -> None:
    """The second table."""
    pairs = [(a.speedup, b.speedup) for a, b in zip(one.cells, other.cells, strict=True)]
    apart = sum(1 for a, b in pairs if (a.high or 0) < (b.low or 0) or (b.high or 0) < (a.low or 0))
    differences = [abs(a.value / b.value - 1) for a, b in pairs]
    print(
        f"\nA second calibration on other prompts: {apart} of {len(pairs)} cells have intervals that do not meet; "
        f"the speedups differ by {median(differences):.1%} in the median, {max(differences):.1%} at most",
        flush=True,
    )


async def run(size: Size, output: Path) -> None:
    """All of it; every server lives from its first use to the end, and is idle while another is measured."""
    models = prepare()
    options = {"dtype": "bfloat16", "max-model-len": 1024, "enforce-eager": True, "served-model-name": SERVED_NAME}
    plan = LaunchPlan.model_validate(
        {"target": str(models.target), "draft": str(models.draft), "method": "draft_model", "vllm": options}
    )
    output.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def start(name: str, plan: LaunchPlan, k: int) -> str:
            own = folder / name
            own.mkdir()
            server = await stack.enter_async_context(InTurn(plan, own, lambda _: None))
            return await server.url(k)

        urls = {k: await start(f"k{k}", plan, k) for k in (0, *KS)}
        session = await stack.enter_async_context(asking_session(None))
        first, identities = await calibrated(size, urls, output / "calibration.json", prompt_sets(seed=3))
        show(Console(width=110), first)
        second, _ = await calibrated(size, urls, output / "second.json", prompt_sets(seed=4))
        agreement(first, second)
        bench = Bench(dict(identities), session, size)
        await bench.prediction(CostCurve.of(first.costs))
        if first.advice is None or not first.advice.num_speculative_tokens:
            print("\nNo schedule to launch: no speculation is recommended")
            return
        k = first.advice.num_speculative_tokens
        schedule = [list(entry) for entry in first.advice.schedule]
        advised = replace_plan(plan, schedule)
        url = await start("scheduled", advised, k)
        identities = {**identities, -1: replace(identities[k], url=url)}
        await Bench(identities, session, size).schedule(first, k)


def replace_plan(plan: LaunchPlan, schedule: list[list[int]]) -> LaunchPlan:
    """The plan with a schedule, under the key of ``--speculative-config``, which a calibration leaves alone."""
    extra = {"num_speculative_tokens_per_batch_size": schedule}
    return plan.model_copy(update={"speculative_config": extra})


async def calibrated(
    size: Size, urls: Mapping[int, str], path: Path, domains: tuple[PromptSet, ...]
) -> tuple[Result, Mapping[int, Identity]]:
    """A calibration of the running servers, written with its report."""
    design = Design(domains, KS, size.max_concurrency, (0.0,), size.repetitions, size.requests, size.max_tokens)
    partial = Partial(path.with_name(path.name + ".partial"), design.description())
    began, count = time.monotonic(), itertools.count(1)

    def progress(block: Block, run: Run | None) -> None:
        if run is not None and (done := next(count)) % 24 == 0:
            print(f"{done} of {len(design.blocks())} blocks, {time.monotonic() - began:.0f} s", file=sys.stderr)

    calibrator = Calibrator(design, Fixed(urls), partial, progress)
    runs = await calibrator.run()
    plain = calibrator.identities[0]
    subject = Subject(plain.model, "draft_model", None, plain.release, device_name())
    result = concluded(subject, design, SHARES, runs, time.time())
    write(path, as_text(result))
    write(path.with_suffix(".html"), report(result))
    partial.remove()
    return result, calibrator.identities


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Calibrate the lab's models, and check the calibration.")
    parser.add_argument("--output", type=Path, default=Path("calibration-lab"), help="folder for the calibrations")
    parser.add_argument("--quick", action="store_true", help="a few prompts: does it run at all?")
    options = parser.parse_args()
    asyncio.run(run(QUICK if options.quick else Size(), options.output))


if __name__ == "__main__":
    main()
