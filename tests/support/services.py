"""Paths of the programs that tests start: a missing one fails the test and says what brings it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from tools import install_test_programs as programs
from tools import newer_prometheus as newer


def prometheus_binary() -> Path:
    """Prometheus' server."""
    return _path(programs.PROMETHEUS)


def promtool() -> Path:
    """Prometheus' checker of rules and configurations."""
    return _path(programs.PROMTOOL)


def alertmanager_binary() -> Path:
    """Alertmanager's server; always give it ``--cluster.listen-address=`` so that it opens no gossip port."""
    return _path(programs.ALERTMANAGER)


def amtool() -> Path:
    """Alertmanager's checker of configurations, routes and templates."""
    return _path(programs.AMTOOL)


def newer_program(name: str) -> Path:
    """A promtool or amtool newer than the system's; skips the test, with the reason, where it cannot be had."""
    found = newer.program(name)
    if isinstance(found, newer.NotToBeHad):
        pytest.skip(f"no newer {name}: {found.reason}")
    return found


def chromium() -> Path:
    """A Chromium browser for headless runs."""
    return _path(programs.CHROMIUM)


def tmux() -> Path:
    """A terminal for the tests of what draws on one."""
    return _path(programs.TMUX)


@lru_cache
def _path(program: programs.Program) -> Path:
    found = programs.find(program)
    if found is None:
        pytest.fail(f"{program.name} is missing: run make test, which brings it", pytrace=False)
    return found
