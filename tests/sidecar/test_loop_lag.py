from __future__ import annotations

import asyncio
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.api import create_app
from specwatch.sidecar.loop_lag import BUCKETS, LoopLag
from specwatch.sidecar.service import Service
from tests.support.asgi import ask


def told(lag: LoopLag) -> dict[str, float]:
    """Sum, count and buckets by their bounds."""
    return {sample.labels.get("le", sample.name.rpartition("_")[2]): sample.value for sample in lag.family().samples}


def test_lags_are_counted_up_to_each_bound():
    lag = LoopLag()
    for seconds in (0.0, 0.005, 0.3, 0.5, 99.0):
        lag.observe(seconds)
    assert told(lag) == {
        **{str(bound): 2.0 if bound < 0.5 else 4.0 for bound in BUCKETS},
        "+Inf": 5.0,
        "count": 5.0,
        "sum": pytest.approx(99.805),
    }


async def test_a_loop_that_stands_still_is_noticed_and_said(caplog, monkeypatch):
    monkeypatch.setattr("specwatch.sidecar.loop_lag.BEAT_SECONDS", 0.01)
    lag = LoopLag()
    task = asyncio.create_task(lag.keep())
    await asyncio.sleep(0)
    time.sleep(1.2)  # what must never happen in a loop
    while told(lag)["count"] == 0:
        await asyncio.sleep(0.01)
    task.cancel()
    assert told(lag)["sum"] >= 1.0
    assert caplog.messages[0].startswith("stood still for ")


async def test_systemd_hears_from_a_loop_that_runs_where_it_wants_to(monkeypatch):
    said = []
    monkeypatch.setattr("specwatch.sidecar.loop_lag.BEAT_SECONDS", 0.001)
    monkeypatch.setattr("specwatch.sidecar.loop_lag.notify", lambda *lines: said.extend(lines))
    for expected in ([], ["WATCHDOG=1"]):
        lag = LoopLag()
        task = asyncio.create_task(lag.keep())
        while told(lag)["count"] < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        assert said[:1] == expected
        monkeypatch.setenv("WATCHDOG_USEC", "30000000")


async def test_metrics_tell_of_the_process_and_its_loop():
    page = (await ask(create_app(Service([]), AlertBook()), "GET", "/metrics")).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert len(families) == page.count("# TYPE ")
    assert families["specwatch_loop_lag_seconds"].type == "histogram"
    (memory,) = families["process_resident_memory_bytes"].samples
    assert memory.value > 10_000_000
    assert {"process_cpu_seconds", "process_open_fds", "process_start_time_seconds"} <= families.keys()
