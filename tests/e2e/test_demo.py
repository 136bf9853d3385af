"""``specwatch demo`` as people run it, from its first line to its last process."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from specwatch.lab.models import LabModels
from tests.support.lab import START_SECONDS, specwatch
from tests.support.processes import Running, running

SHOW_SECONDS = 900.0
"""Longest that the scenes may take: each gives up after four minutes by itself."""

QUICK_SECONDS = 120.0
"""Longest for what takes seconds on an idle machine."""

FIGURES = re.compile(r"acceptance ([\d.]+)% over 15s")
"""Acceptance as the show prints it, every five seconds for every server."""


@dataclass(frozen=True)
class Show:
    """The simulated show, and how soon it had something to show."""

    program: Running
    seconds_to_figures: float


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Show]:
    """It plays while the module's other tests run, for it hardly does anything but wait."""
    folder = tmp_path_factory.mktemp("simulated")
    began = time.monotonic()
    with running(specwatch("demo", "--simulated", "--once"), folder / "log", {"SPECWATCH_CACHE": str(folder)}) as demo:
        demo.until("the first figures stand", lambda: bool(acceptances(demo.output())), QUICK_SECONDS)
        yield Show(demo, time.monotonic() - began)


def acceptances(text: str) -> list[float]:
    """Every acceptance shown there, as a percentage."""
    return [float(figure) for figure in FIGURES.findall(text)]


def shows_the_fall_the_messages_and_the_return(demo: Running) -> None:
    home, foreign, back = demo.output().split("\n== ")[1:]
    assert "made for" in home.splitlines()[0]
    assert max(acceptances(home)) > 60 > min(acceptances(foreign))
    # The show ends with the last message, and figures come every five seconds: the last ones may still be below 60.
    assert max(acceptances(back)) > min(acceptances(foreign)) + 10
    assert re.search("Slack received: .*Firing: Draft acceptance is low on ", foreign)
    assert re.search("PagerDuty received: trigger, warning: Draft acceptance is low on ", foreign)
    assert re.search("Slack received: .*Resolved: Draft acceptance is low on ", back)
    assert re.search("PagerDuty received: resolve: .*SpeculativeAcceptanceRateLow", back)


def ends_by_itself(demo: Running, seconds: float) -> None:
    assert demo.exit_code(seconds) == 0, demo.tail()
    assert demo.output().rstrip().endswith("nothing is left running."), demo.tail()
    assert demo.left_behind() == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["to the program alone", "to its group, as a terminal does"])
def test_ctrl_c_in_the_middle_ends_the_show(simulated: Show, tmp_path, send: Callable[[int, int], None]):
    command = specwatch("demo", "--simulated")
    with running(command, tmp_path / "log", {"SPECWATCH_CACHE": str(tmp_path)}) as demo:
        demo.until("the first figures stand", lambda: bool(acceptances(demo.output())), QUICK_SECONDS)
        send(demo.process.pid, signal.SIGINT)
        ends_by_itself(demo, QUICK_SECONDS)
        assert "Traceback" not in demo.output(), demo.tail()


@pytest.mark.vllm
@pytest.mark.timeout(2400)
def test_the_show_on_a_real_vllm_goes_through_and_leaves_nothing_behind(simulated, lab_models: LabModels, tmp_path):
    with running(specwatch("demo", "--once"), tmp_path / "log") as demo:
        ends_by_itself(demo, START_SECONDS + SHOW_SECONDS)
        shows_the_fall_the_messages_and_the_return(demo)
        assert "VLLM" in {process.command[:4] for process in demo.seen}, "there was a vLLM to leave behind"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_simulated_show_goes_through_and_leaves_nothing_behind(simulated: Show, record_property):
    ends_by_itself(simulated.program, SHOW_SECONDS)
    shows_the_fall_the_messages_and_the_return(simulated.program)
    record_property("simulated demo, seconds to the first figures", f"{simulated.seconds_to_figures:.1f}")
