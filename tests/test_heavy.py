"""Heavy tests take turns: what tests/conftest.py promises, and pytest-xdist has broken before."""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import ROOT, outside_pytest, run

TESTS = """
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("marker", [pytest.param(marker, marks=getattr(pytest.mark, marker)) for marker in MARKERS])
def test_heavy(marker, number):
    with pathlib.Path("workers").open("a") as log:
        log.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")

@pytest.mark.parametrize("number", range(8))
def test_light(number):
    pass
"""


@pytest.mark.slow
def test_every_heavy_test_runs_on_one_worker(tmp_path):
    markers = ["vllm", "services", "browser", "slow"]
    settings = "[pytest]\nmarkers =\n" + "".join(f"    {marker}: heavy\n" for marker in markers)
    (tmp_path / "pytest.ini").write_text(f"{settings}pythonpath = {ROOT}\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_weights.py").write_text(f"MARKERS = {markers}\n{TESTS}")
    run([sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup"], cwd=tmp_path, env=outside_pytest())
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 16
    assert len(set(workers)) == 1
