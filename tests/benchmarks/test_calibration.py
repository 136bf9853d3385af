"""The benchmark of calibrations, on servers that stand in for vLLM: it measures, compares, and counts its misses."""

from __future__ import annotations

import dataclasses
import re
from contextlib import AsyncExitStack

import pytest

from benchmarks import calibration
from benchmarks.calibration import CLOCKS, KS, QUICK, SCHEDULED, WALL, Bench, bench_meets, prompt_sets
from benchmarks.cpu_clock import cpu_seconds, in_cpu_time
from specwatch.measure.calibration.blocks import Block, Cell
from specwatch.measure.calibration.load import asking_session
from specwatch.signals.cost import CostCurve
from tests.support.calibrated import Standing, served
from tests.support.runs import PLAIN_STEP, runs_of


async def test_what_is_calibrated_is_predicted_for_traffic_that_was_not_measured(capsys):
    async with AsyncExitStack() as stack:
        bench = Bench({}, await stack.enter_async_context(asking_session(None)), QUICK)
        for k, drafts in {0: 0, **{k: k for k in KS}, SCHEDULED: KS[0]}.items():
            await bench_meets(bench, k, await stack.enter_async_context(served(Standing(k=drafts))))
        found = await bench.calibrated(prompt_sets(seed=3))
        calibration.agreement(WALL, found[WALL], found[WALL])
        # The stand-in counts steps that nobody waited for: by its counters more requests ran than there were.
        points = [dataclasses.replace(point, concurrency=1e6) for point in found[WALL].costs]
        await bench.prediction(dict.fromkeys(CLOCKS, CostCurve.of(points)))
        await bench.schedule(KS[0], (1, 2))
    said = capsys.readouterr().out
    assert "by wall time: 0 of 8 cells have intervals that do not meet" in said
    # The stand-in's clock is exact: a step costs 1 + K/4 plain ones and brings two tokens, the last one what is left.
    for k in KS:
        row = re.search(rf"wall +100%    0% +2 +{k} +(\S+) +(\S+)", said)
        assert row is not None, said
        assert [float(number) for number in row.groups()] == pytest.approx([2 / (1 + k / 4)] * 2, rel=0.03)
    assert re.search(r"by wall time: median error 0\.\d%.*on the wrong side of 1 beyond the noise: 0 of 2", said)
    # What drafts by the schedule is here as fast as what drafts always.
    assert re.search(r"wall +2 +3\.0 +1\.1\d +1\.1\d +1\.00", said)


def test_processor_time_shrinks_all_durations_of_a_run_alike():
    design = calibration.Design(prompt_sets(seed=3)[:1], (3,), 1)
    run = runs_of(design, lambda _: (PLAIN_STEP, 2.0))[Block(0, 3, Cell("json", 0.0, 1))]
    shrunk = in_cpu_time(run, run.seconds / 4)
    assert shrunk.tpot == pytest.approx(run.tpot / 4)
    assert shrunk.step_seconds == pytest.approx(PLAIN_STEP / 4)
    assert shrunk.batch_size == pytest.approx(run.batch_size)


def test_a_server_that_is_no_vllm_has_no_engine_to_time():
    assert cpu_seconds("http://127.0.0.1:1") == 0


def test_the_mixes_are_within_what_is_calibrated():
    assert sum(calibration.SHARES.values()) == pytest.approx(1)
    for home, concurrency in calibration.MIXES:
        assert 0 <= home <= 1
        assert 1 <= concurrency <= calibration.Size.max_concurrency
