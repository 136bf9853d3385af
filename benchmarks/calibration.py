r"""Does a calibration hold? On real vLLM with the lab's models: measure it, then check it on traffic it never saw.

    VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=1 \
      VLLM_ENABLE_V1_MULTIPROCESSING=0 python -m benchmarks.calibration --output calibration-lab

Four tables, each by the clock on the wall and by the engine's processor time (see ``cpu_clock``): the calibration
itself; traffic of mixed domains and concurrency, with the speedup that costs and counters give (``calibrated``) beside
the one measured on the spot against the server without speculation; the recommended schedule, launched, beside drafting
always and never; and a second calibration on other prompts. Half an hour on two cores. ``--quick`` is the same on a
few prompts; ``--running`` takes servers that run already. One thread a server, and one process for engine and worker
together: several wait for each other by spinning, which doubles a step's time on two cores and counts as work.
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

from benchmarks.cpu_clock import cpu_seconds, in_cpu_time
from specwatch.cli.calibrate_launch import InTurn
from specwatch.cli.calibrate_screen import show
from specwatch.lab import corpus
from specwatch.lab.models import prepare
from specwatch.lab.stage import SERVED_NAME
from specwatch.measure.calibration.blocks import Block, Cell, Design
from specwatch.measure.calibration.html import report
from specwatch.measure.calibration.load import asking_session
from specwatch.measure.calibration.result import Result, Subject, as_text, concluded, write
from specwatch.measure.calibration.runs import Run, measure, warm_up
from specwatch.measure.calibration.servers import Identity, identify
from specwatch.measure.calibration.stats import Estimate, ratio_of
from specwatch.measure.prompt_sets import PromptSet
from specwatch.signals.cost import CostCurve
from specwatch.signals.speedup import SpeedupKind
from specwatch.signals.window import Increments
from specwatch.signals.worth import Basis, assess
from specwatch.vllm.device import device_name
from specwatch.vllm.metrics import Counter
from specwatch.vllm.plan import LaunchPlan

KS = (3, 5)
SCHEDULED = -1
"""Stands for K where a server drafts by a schedule."""
WALL, CPU = "wall", "processor"
CLOCKS = (WALL, CPU)
SHARES = {"json": 0.8, "es": 0.2}
"""Traffic that the recommendation is for: the draft's own domain, with some of one that it was not made for."""
MIXES = ((1.0, 3), (0.9, 2), (0.8, 6), (0.5, 4), (0.3, 3), (0.0, 5), (0.7, 8), (0.1, 1))
"""Share of the draft's own domain, and requests at a time: between the calibrated ones as well as on them."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    max_concurrency: int = 8
    repetitions: int = 20
    requests: int = 4
    """A turn of half a second: neighbouring turns share the machine's mood, which wanders within seconds, and so the
    ratio of two short ones strays by 11 to 18 %, with hardly a correlation from one pair to the next."""
    max_tokens: int = 100
    mixes: int = len(MIXES)
    turns: int = 20
    """Repetitions of each mix, and of each load under the schedule."""


QUICK = Size(max_concurrency=2, repetitions=2, requests=4, max_tokens=64, mixes=1, turns=2)

ByClock = Mapping[str, Run]
"""One run, by each clock."""


def prompt_sets(seed: int, count: int = 160) -> tuple[PromptSet, ...]:
    """Two of the lab's kinds of text."""
    return tuple(PromptSet(name, tuple(corpus.prompts(name, count, seed))) for name in SHARES)


def mixed(shares: Sequence[float], seed: int) -> PromptSet:
    """Prompts of all kinds by their shares, shuffled."""
    kinds = zip(prompt_sets(seed), shares, strict=True)
    prompts = [prompt for kind, share in kinds for prompt in kind.prompts[: round(100 * share)]]
    random.Random(seed).shuffle(prompts)  # noqa: S311 -- repeatable is the point
    return PromptSet("mixed", tuple(prompts))


def predicted(run: Run, curve: CostCurve) -> float | None:
    """The speedup that a sidecar with this calibration shows for what the server counted."""
    counted = Increments(run.seconds, run.counts, run.accepted_per_position)
    known = assess([counted], Basis(curve=curve), min_drafts=1)
    return next((each.value for each in known if each.kind is SpeedupKind.CALIBRATED), None)


class Bench:
    """The running servers, by K; 0 is the baseline."""

    def __init__(self, identities: Mapping[int, Identity], session: aiohttp.ClientSession, size: Size) -> None:
        self.identities = dict(identities)
        self.session = session
        self.size = size

    async def measured(self, design: Design, block: Block, k: int) -> ByClock:
        """One turn of a server; by processor time, where it can be told, and else by the wall's alone."""
        identity = self.identities[k]
        before = cpu_seconds(identity.url)
        run = await measure(self.session, design, block, identity, secrets.token_hex(8))
        used = cpu_seconds(identity.url) - before
        return {WALL: run, CPU: in_cpu_time(run, used) if used > 0 else run}

    async def calibrated(self, domains: tuple[PromptSet, ...]) -> dict[str, Result]:
        """A calibration, by each clock."""
        size = self.size
        design = Design(domains, KS, size.max_concurrency, (0.0,), size.repetitions, size.requests, size.max_tokens)
        runs: dict[str, dict[Block, Run]] = {clock: {} for clock in CLOCKS}
        began = time.monotonic()
        for number, block in enumerate(design.blocks(), 1):
            for clock, run in (await self.measured(design, block, block.k)).items():
                runs[clock][block] = run
            if number % 96 == 0:
                print(f"{number} of {len(design.blocks())} turns, {time.monotonic() - began:.0f} s", file=sys.stderr)
        plain = self.identities[0]
        subject = Subject(plain.model, "draft_model", None, plain.release, device_name())
        return {clock: concluded(subject, design, SHARES, runs[clock], time.time()) for clock in CLOCKS}

    async def turns(self, prompts: PromptSet, concurrency: int, ks: Sequence[int]) -> dict[str, dict[int, list[Run]]]:
        """The same prompts on each of these servers, taking turns; other prompts every turn."""
        size = self.size
        design = Design((prompts,), (1,), concurrency, (0.0,), size.turns, 2 * size.requests, size.max_tokens)
        found: dict[str, dict[int, list[Run]]] = {clock: {k: [] for k in ks} for clock in CLOCKS}
        for turn in range(size.turns):
            for k in ks if turn % 2 == 0 else ks[::-1]:
                # Whatever a schedule drafts, its block is one with speculation.
                block = Block(turn, abs(k), Cell(prompts.name, 0.0, concurrency))
                for clock, run in (await self.measured(design, block, k)).items():
                    found[clock][k].append(run)
        return found

    async def prediction(self, curves: Mapping[str, CostCurve]) -> None:
        """The second table."""
        print("\nFresh traffic: calibrated by counters, and measured on the spot")
        print("clock      json    es  conc.  K  calibrated  measured  95 % interval  off by", flush=True)
        errors: dict[str, list[float]] = {clock: [] for clock in CLOCKS}
        wrong = dict.fromkeys(CLOCKS, 0)
        for number, (home, most) in enumerate(MIXES[: self.size.mixes]):
            shares = (home, 1 - home)
            concurrency = min(most, self.size.max_concurrency)
            runs = await self.turns(mixed(shares, seed=100 + number), concurrency, (0, *KS))
            for clock, k in itertools.product(CLOCKS, KS):
                told = [value for run in runs[clock][k] if (value := predicted(run, curves[clock])) is not None]
                mix = "  ".join(f"{share:4.0%}" for share in shares)
                if not told:
                    print(f"{clock:9}  {mix}  {concurrency:5}  {k}  more requests at once than were calibrated")
                    continue
                known = ratio_of(told).value
                spot = _speedup(runs[clock][0], runs[clock][k])
                errors[clock].append(known / spot.value - 1)
                wrong[clock] += spot.above_one is not None and (known > 1) != spot.above_one
                row = f"{clock:9}  {mix}  {concurrency:5}  {k}  {known:10.2f}  {spot.value:8.2f}  {_interval(spot):>13}"
                print(f"{row}  {errors[clock][-1]:+6.1%}", flush=True)
        for clock in CLOCKS:
            off = [abs(error) for error in errors[clock]] or [float("nan")]
            print(
                f"by {clock} time: median error {median(off):.1%}, largest {max(off):.1%}; on the wrong side of 1 "
                f"beyond the noise: {wrong[clock]} of {len(off)}"
            )

    async def schedule(self, always: int, ladder: Sequence[int]) -> None:
        """The third table: with K by the schedule, ÷ the better of drafting always and never."""
        print(f"\nThe recommended schedule, launched, beside off and K {always} always")
        print("clock      conc.  mean K  always  scheduled  scheduled ÷ better of off and always", flush=True)
        prompts = mixed([SHARES[name] for name in SHARES], seed=200)
        for concurrency in ladder:
            both = await self.turns(prompts, concurrency, (0, always, SCHEDULED))
            for clock, runs in both.items():
                drafting, scheduled = _speedup(runs[0], runs[always]), _speedup(runs[0], runs[SCHEDULED])
                against = _speedup(runs[always if drafting.value > 1 else 0], runs[SCHEDULED])
                drafted, steps = (
                    sum(run.counts.get(counter, 0.0) for run in runs[SCHEDULED])
                    for counter in (Counter.DRAFT_TOKENS, Counter.DECODE_STEPS)
                )
                row = (
                    f"{clock:9}  {concurrency:5}  {drafted / steps:6.1f}  {drafting.value:6.2f}  {scheduled.value:9.2f}"
                )
                print(f"{row}  {against.value:.2f} ({_interval(against)})", flush=True)


def _speedup(before: Sequence[Run], after: Sequence[Run]) -> Estimate:
    return ratio_of([one.tpot / other.tpot for one, other in zip(before, after, strict=True)])


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.2f} to {estimate.high:.2f}"


def agreement(clock: str, one: Result, other: Result) -> None:
    """The fourth table."""
    pairs = [(a.speedup, b.speedup) for a, b in zip(one.cells, other.cells, strict=True)]
    apart = sum(1 for a, b in pairs if (a.high or 0) < (b.low or 0) or (b.high or 0) < (a.low or 0))
    differences = [abs(a.value / b.value - 1) for a, b in pairs]
    print(
        f"A second calibration on other prompts, by {clock} time: {apart} of {len(pairs)} cells have intervals that do "
        f"not meet; the speedups differ by {median(differences):.1%} in the median, {max(differences):.1%} at most",
        flush=True,
    )


async def run(size: Size, output: Path, running: Sequence[str]) -> None:
    """All of it; every server lives from its first use to the end, and is idle while another is measured."""
    models = prepare()
    options = {
        "dtype": "bfloat16",
        "max-model-len": 1024,
        "enforce-eager": True,
        "served-model-name": SERVED_NAME,
        "distributed-executor-backend": "uni",
    }
    plan = LaunchPlan.model_validate(
        {"target": str(models.target), "draft": str(models.draft), "method": "draft_model", "vllm": options}
    )
    output.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        async def start(name: str, plan: LaunchPlan, k: int) -> str:
            (folder / name).mkdir()
            server = await stack.enter_async_context(InTurn(plan, folder / name, lambda _: None))
            return await server.url(k)

        urls = dict(zip((0, *KS), running, strict=True)) if running else {}
        for k in (0, *KS):
            urls[k] = urls.get(k) or await start(f"k{k}", plan, k)
        session = await stack.enter_async_context(asking_session(None))
        bench = Bench({}, session, size)
        for k, url in urls.items():
            await bench_meets(bench, k, url)
        first = await bench.calibrated(prompt_sets(seed=3))
        for clock, result in first.items():
            print(f"\nBy {clock} time", flush=True)
            show(Console(width=110), result)
            write(output / f"{clock}.json", as_text(result))
            write(output / f"{clock}.html", report(result))
        await bench.prediction({clock: CostCurve.of(result.costs) for clock, result in first.items()})
        advice = first[CPU].advice
        if advice is not None and advice.num_speculative_tokens:
            extra = {"num_speculative_tokens_per_batch_size": [list(entry) for entry in advice.schedule]}
            advised = plan.model_copy(update={"speculative_config": extra})
            await bench_meets(bench, SCHEDULED, await start("scheduled", advised, advice.num_speculative_tokens))
            await bench.schedule(advice.num_speculative_tokens, first[CPU].design.ladder)
        second = await bench.calibrated(prompt_sets(seed=4))
        print()
        for clock in CLOCKS:
            agreement(clock, first[clock], second[clock])


async def bench_meets(bench: Bench, k: int, url: str) -> None:
    """A server joins, and is warmed up."""
    size = bench.size
    design = Design(prompt_sets(seed=2), KS, size.max_concurrency, (0.0,), size.repetitions)
    bench.identities[k] = await identify(bench.session, url, "")
    await warm_up(bench.session, replace(design, ks=(max(k, 1),)), bench.identities[k])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Calibrate the lab's models, and check the calibration.")
    parser.add_argument("--output", type=Path, default=Path("calibration-lab"), help="folder for the calibrations")
    parser.add_argument("--quick", action="store_true", help="a few prompts: does it run at all?")
    parser.add_argument(
        "--repetitions", type=int, help="turns of every server, in the calibration and on other traffic"
    )
    parser.add_argument("--running", nargs=3, default=(), metavar="URL", help="servers: without, with K 3, with K 5")
    options = parser.parse_args()
    size = QUICK if options.quick else Size()
    if options.repetitions:
        size = replace(size, repetitions=options.repetitions, turns=options.repetitions)
    asyncio.run(run(size, options.output, options.running))


if __name__ == "__main__":
    main()
