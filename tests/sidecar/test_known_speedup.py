"""The speedup as the sidecar knows it: estimated, calibrated, measured against a twin; exported and judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.lab.scenario import HOME
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.exporter import render
from specwatch.sidecar.run import watch_settings
from specwatch.sidecar.watch import WatchSettings
from specwatch.signals import gpus, model_cost
from specwatch.signals.cost import CostCurve, CostPoint
from specwatch.signals.roofline import Bound, Hardware
from specwatch.signals.speedup import SpeedupKind
from specwatch.vllm import calibration
from specwatch.vllm.launch_record import LaunchRecord
from tools.rehearsal import offstage

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""


def server(name: str, k: int | None = 5) -> SimulatedServer:
    return SimulatedServer(name, model_name="llama", traffic=HOME, running=2, cost=SLOW, k=k)


def samples(page: bytes, name: str, **labels: str) -> list[float]:
    return [
        sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.name == name and sample.labels.items() >= labels.items()
    ]


async def test_beside_a_twin_without_speculation_the_speedup_is_measured():
    async with offstage([server("drafting"), server("plain", k=None)]) as stage:
        await stage.play(600, step=15)
        drafting, plain = stage.service.views()
        page = render(stage.service, AlertBook())
    measured, *others = drafting.speedups
    assert measured.kind is SpeedupKind.MEASURED
    assert [other.kind for other in others] == [SpeedupKind.ESTIMATED]
    truth = SLOW.speedup(drafting.headline.values["acceptance_length"], 2, 5)
    assert measured.value == pytest.approx(truth, rel=0.1)
    assert drafting.states()["known_speedup"] == measured.value
    assert plain.speedups == ()
    assert samples(page, "specwatch_speedup_ratio", target="drafting", kind="measured") == [measured.value]
    assert samples(page, "specwatch_known_speedup", target="drafting") == [measured.value]
    assert samples(page, "specwatch_speedup_ratio", target="plain") == []


async def test_alone_and_without_a_calibration_it_is_an_estimate_and_no_state():
    async with offstage([server("drafting")]) as stage:
        await stage.play(600, step=15)
        (view,) = stage.service.views()
    assert [speedup.kind for speedup in view.speedups] == [SpeedupKind.ESTIMATED]
    assert view.states()["known_speedup"] is None


def calibrated(folder: Path, **other: object) -> Path:
    """A calibration in which a step with K = 5 takes twice a plain one."""
    cost = {"num_speculative_tokens": 5, "concurrency": 2, "step_seconds": 0.4, "plain_step_seconds": 0.2}
    cell = {"domain": "json", "num_speculative_tokens": 5, "concurrency": 2, "speedup": 1.5}
    content = {"format": calibration.FORMAT, "target": "llama", "costs": [cost], "cells": [cell]} | other
    (folder / "calibration.json").write_text(json.dumps(content))
    return folder / "calibration.json"


async def test_with_a_calibration_step_costs_are_those_that_were_measured(tmp_path):
    read = calibration.read(calibrated(tmp_path))
    settings = WatchSettings(curve=CostCurve.of(map(CostPoint.read, read.costs)))
    async with offstage([server("drafting")]) as stage:
        stage.service.watches["drafting"].settings = settings
        stage.service.cells = read.cells
        await stage.play(600, step=15)
        (view,) = stage.service.views()
        page = render(stage.service, AlertBook())
    by_kind = {speedup.kind: speedup for speedup in view.speedups}
    length = view.headline.values["tokens_per_step"]
    assert by_kind[SpeedupKind.CALIBRATED].value == pytest.approx(length / 2, rel=0.02)
    assert samples(page, "specwatch_calibrated_speedup_ratio", domain="json", concurrency="2") == [1.5]


def test_a_calibration_of_something_else_is_refused_with_the_difference(tmp_path):
    config = SidecarConfig(calibration=calibrated(tmp_path, method="eagle3", draft="head"))
    record = LaunchRecord("0.32.0", 0.0, target="llama", method="draft_model", draft="small", num_speculative_tokens=3)
    with pytest.raises(InputError, match="method eagle3, not draft_model and draft head, not small and num_spec"):
        watch_settings(config, record, calibration.read(config.calibration or Path()))


@pytest.mark.parametrize("speedup", [0, -1, True, "2", float("inf")])
def test_a_cell_that_holds_no_speedup_is_refused(tmp_path, speedup):
    cells = [{"domain": "json", "num_speculative_tokens": 5, "concurrency": 2, "speedup": speedup}]
    with pytest.raises(InputError, match="cells: speedup must be a number above 0"):
        calibration.read(calibrated(tmp_path, cells=cells))


async def test_where_model_and_gpu_are_known_it_says_how_near_the_bound_a_step_is():
    model = model_cost.from_numbers(70e9)
    bound = Bound(model, Hardware(gpus.find("A100 SXM 80GB"), tensor_parallel=1))
    async with offstage([server("drafting")]) as stage:
        watch = stage.service.watches["drafting"]
        watch.settings = replace(watch.settings, bound=bound)
        await stage.play(600, step=15)
        (view,) = stage.service.views()
        page = render(stage.service, AlertBook())
    seconds = view.headline.values["step_latency"]
    assert view.share_of_bound == pytest.approx(140e9 / 2039e9 / seconds, rel=0.01)
    assert samples(page, "specwatch_step_bound_share_ratio") == [view.share_of_bound]


def test_a_gpu_without_a_model_or_of_no_known_name_is_refused(tmp_path):
    with pytest.raises(InputError, match="--gpu: which model"):
        watch_settings(SidecarConfig(gpu="A100 SXM 80GB"), None)
    with pytest.raises(InputError, match="--model: "):
        watch_settings(SidecarConfig(gpu="A100 SXM 80GB", model=str(tmp_path / "absent")), None)
