"""The benchmark of calibrations, on servers that stand in for vLLM: it measures, compares, and counts its misses."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack

import pytest

from benchmarks import calibration
from benchmarks.calibration import KS, QUICK, Bench, calibrated, prompt_sets
from specwatch.measure.calibrate_load import asking_session
from specwatch.signals.cost import CostCurve
from tests.support.calibrated import Standing, served


async def test_what_is_calibrated_is_predicted_for_traffic_that_was_not_measured(tmp_path, capsys):
    # Two prompt kinds are as good as one to a server that accepts the same of both.
    async with AsyncExitStack() as stack:
        urls = {k: await stack.enter_async_context(served(Standing(k=k))) for k in (0, *KS)}
        result, identities = await calibrated(QUICK, urls, tmp_path / "c.json", prompt_sets(seed=3))
        session = await stack.enter_async_context(asking_session(None))
        calibration.agreement(result, result)
        await Bench(identities, session, QUICK).prediction(CostCurve.of(result.costs))
    said = capsys.readouterr().out
    assert "0 of 12 cells have intervals that do not meet" in said
    # The stand-in's clock is exact: a step costs 1 + K/4 plain ones and brings two tokens, the last one what is left.
    for k in KS:
        row = re.search(rf"100%    0%    0% +2 +{k} +(\S+) +(\S+)", said)
        assert row is not None, said
        assert [float(number) for number in row.groups()] == pytest.approx([2 / (1 + k / 4)] * 2, rel=0.03)
    assert re.search(r"median error 0\.\d%.*on the wrong side of 1 beyond the noise: 0 of 2", said)


def test_the_mixes_are_of_the_domains_that_are_calibrated():
    for *shares, concurrency in calibration.MIXES:
        assert sum(shares) == pytest.approx(1)
        assert len(shares) == len(calibration.SHARES)
        assert 1 <= concurrency <= calibration.Size.max_concurrency
