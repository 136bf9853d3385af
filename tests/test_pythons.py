"""The core on the other Pythons that are here: the wheel in a clean environment, and the fast tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import ROOT, outside_pytest, run
from tests.support.wheel import make_environment

HEAVY = "vllm or services or browser or slow"


def candidates(version: str) -> Iterator[Path]:
    """Where a Python of this version may be: on the PATH, or among pyenv's, whose PATH entry may be a stub."""
    if command := shutil.which(f"python{version}"):
        yield Path(command)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"))


def interpreter(version: str) -> Path | None:
    """A Python of this version that runs and can make environments, or None."""
    check = f"import ensurepip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for python in candidates(version):
        if subprocess.run([python, "-c", check], capture_output=True).returncode == 0:
            return python
    return None


def checkout_without_the_package(folder: Path) -> Path:
    """Copy everything but ``specwatch/``, so that the tests can import it from the wheel only."""
    listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if not name.startswith("specwatch/") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


NOT_OF_THE_WHEEL = ("--ignore=tests/benchmarks", "--ignore=tests/tools/test_grafana_schema.py")
"""They want libraries of the extras benchmarks and dev, which not every Python has."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_the_fast_tests_pass(version, wheel, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    programs = make_environment(ROOT / ".cache" / "pythons" / version, f"{wheel}[test]", python=python)
    # An environment of an earlier run holds a wheel of the same version.
    run([programs / "python", "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", wheel])
    done = run(
        [programs / "pytest", "-m", f"not ({HEAVY})", *NOT_OF_THE_WHEEL, "-p", "no:cacheprovider", "--color=no"],
        cwd=checkout_without_the_package(tmp_path / "checkout"),
        env=outside_pytest(),
    )
    print(done.stdout.splitlines()[-1])
