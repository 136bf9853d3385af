"""What tests share: heavy ones take turns; the wheel is built once; what was measured is shown."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.wheel import build_wheel

# How long an example takes says how busy the machine is, not whether the property holds. A tree's tests try the same
# examples every time, so that they judge the change; --hypothesis-profile=explore tries new and more ones.
settings.register_profile("specwatch", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("specwatch")

# A shell that starts tests in the background has them ignore Ctrl-C, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

HEAVY = ("vllm", "services", "browser", "slow")


def _is_heavy(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(marker) for marker in HEAVY)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the heavy tests to one worker, which starts on them at once.

    A vLLM server takes every core it finds: beside another heavy test both would be late. With
    ``-n 2 --dist loadgroup`` one worker runs these one by one while the other runs all the rest.
    """
    for item in items:
        if _is_heavy(item):
            item.add_marker(pytest.mark.xdist_group("heavy"))
    items.sort(key=lambda item: not _is_heavy(item))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests measured without judging it: their ``record_property``."""
    measured = [entry for report in terminalreporter.getreports("passed") for entry in report.user_properties]
    if measured:
        terminalreporter.section("measured, not judged")
    for name, value in measured:
        terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of specwatch, built from this checkout."""
    return build_wheel(tmp_path_factory.mktemp("dist"))
