"""What `make lint` checks, so that the tests decide about it too."""

from __future__ import annotations

import sys

import pytest

from tests.support.programs import ROOT, run


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_the_code_is_clean(command):
    run([sys.executable, "-m", *command.split()], cwd=ROOT)
