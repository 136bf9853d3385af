"""Bring the programs that the tests drive: Prometheus, promtool, Alertmanager, amtool, Chromium and tmux.

    python tools/install_test_programs.py            bring what is missing
    python tools/install_test_programs.py --list     only say where each is found

Exit code 0: all are there and run; 1: some are missing (what to do is printed).

Debian's Prometheus and Alertmanager packages start system services when they are installed. The tests want
the binaries only, so the packages are downloaded with apt and unpacked under .cache/services, which needs no
root as long as apt has its package lists. Two things need root: Debian's Alertmanager reads its templates
from /usr/share/prometheus wherever it is itself, so they are copied there; Chromium and tmux need libraries, so they
are really installed. Programs on the PATH serve as well as those unpacked here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SERVICES = Path(__file__).resolve().parent.parent / ".cache" / "services"
"""Where the packages are unpacked."""


@dataclass(frozen=True)
class Program:
    """Something the tests start: the commands it may go by, and the Debian packages that may hold it."""

    name: str
    commands: tuple[str, ...]
    packages: tuple[str, ...]
    unpacked: bool = True
    """Whether its package works when it is unpacked in a folder of ours; otherwise it must be installed."""
    reads: tuple[Path, ...] = ()
    """Files of its package that it looks for in the system, even when it is unpacked in a folder of ours."""
    version_flag: str = "--version"
    """What it is asked, to see whether it runs."""


PROMETHEUS = Program("Prometheus", ("prometheus",), ("prometheus",))
# From Debian 13 on, promtool has a package of its own.
PROMTOOL = Program("promtool", ("promtool",), ("prometheus", "promtool"))
ALERTMANAGER = Program(
    "Alertmanager",
    ("prometheus-alertmanager", "alertmanager"),
    ("prometheus-alertmanager",),
    # Debian takes the templates out of the binary, and without them the server refuses every configuration.
    reads=(
        Path("/usr/share/prometheus/alertmanager/default.tmpl"),
        Path("/usr/share/prometheus/alertmanager/email.tmpl"),
    ),
)
AMTOOL = Program("amtool", ("amtool",), ("prometheus-alertmanager", "amtool"))
CHROMIUM = Program("Chromium", ("chromium", "chromium-browser", "google-chrome"), ("chromium",), unpacked=False)
TMUX = Program("tmux", ("tmux",), ("tmux",), unpacked=False, version_flag="-V")
PROGRAMS = (PROMETHEUS, PROMTOOL, ALERTMANAGER, AMTOOL, CHROMIUM, TMUX)


def find(program: Program) -> Path | None:
    """The program's path, unpacked here or else on the PATH; None where neither holds one that runs."""
    here = [] if lacking(program) else [SERVICES / "usr" / "bin" / command for command in program.commands]
    elsewhere = [Path(path) for path in map(shutil.which, program.commands) if path]
    return next((path for path in (*here, *elsewhere) if runs(path, program.version_flag)), None)


def lacking(program: Program) -> list[Path]:
    """Files that the program reads, that were unpacked with it, and that are not where it reads them."""
    return [path for path in program.reads if not path.is_file() and unpacked_copy(path).is_file()]


def unpacked_copy(path: Path) -> Path:
    """Where a file of the system is when its package is unpacked here."""
    return SERVICES / path.relative_to("/")


def runs(path: Path, version_flag: str = "--version") -> bool:
    """Whether the file starts on this machine: a half unpacked one does not."""
    try:
        return subprocess.run([path, version_flag], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def unpack(package: str, into: Path) -> None:
    """Download a Debian package and unpack it; CalledProcessError when apt or dpkg cannot."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # apt drops to a user of its own for downloads, and warns where that one cannot write.
        Path(folder).chmod(0o777)
        subprocess.run(["apt-get", "--quiet", "download", package], cwd=folder, check=True)
        archive = next(Path(folder).glob("*.deb"))
        subprocess.run(["dpkg", "-x", archive, into], check=True)


def install(package: str) -> None:
    """Install a Debian package; CalledProcessError when apt cannot."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(
        ["apt-get", "install", "--yes", "--no-install-recommends", package],
        env=environment,
        stdin=subprocess.DEVNULL,
        check=True,
    )


def bring(program: Program) -> None:
    """Fetch the program's packages, one after the other, until it is found or none is left."""
    for package in program.packages:
        if find(program):
            return
        print(f"{program.name}: fetching Debian's {package}", flush=True)
        try:
            if program.unpacked:
                unpack(package, SERVICES)
                put_where_read(program)
            else:
                install(package)
        except (OSError, subprocess.CalledProcessError) as problem:
            print(f"{program.name}: {problem}", file=sys.stderr, flush=True)


def put_where_read(program: Program) -> None:
    """Copy unpacked files to the places where the program looks for them; those that are there are left alone."""
    for path in lacking(program):
        print(f"{program.name}: writing {path}, which it reads", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(unpacked_copy(path), path)


def fetchable(program: Program, *, root: bool) -> bool:
    """Whether this user can bring the program: to unpack takes apt alone, to write into the system root too."""
    return shutil.which("apt-get") is not None and (root or (program.unpacked and not lacking(program)))


def bring_all(programs: Sequence[Program], *, root: bool) -> list[Program]:
    """Bring what can be brought, and return what is still missing.

    Package lists that are absent or older than the mirror make every download fail; root can renew them once.
    """
    for program in programs:
        if fetchable(program, root=root):
            bring(program)
    missing = [program for program in programs if not find(program)]
    if root and any(fetchable(program, root=root) for program in missing):
        print("Renewing apt's package lists", flush=True)
        # A source that does not answer fails the command although the others were renewed.
        subprocess.run(["apt-get", "--quiet", "update"], check=False)
        for program in missing:
            bring(program)
    return [program for program in programs if not find(program)]


def remedy(missing: Sequence[Program]) -> str:
    """What to do about programs that could not be brought."""
    names = ", ".join(program.name for program in missing)
    commands = ", ".join(program.commands[0] for program in missing)
    if not shutil.which("apt-get"):
        return f"Missing: {names}. This system has no apt: put {commands} on the PATH, then run this again."
    lines = [f"Missing: {names}. As root:", "    apt-get update"]
    installed = sorted({program.packages[0] for program in missing if not program.unpacked})
    if installed:
        lines.append(f"    apt-get install --no-install-recommends {' '.join(installed)}")
    if any(lacking(program) for program in missing):
        lines.append(f"    {sys.executable} {Path(__file__).resolve()}")
    return "\n".join([*lines, "then run this again."])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the module's docstring lists the exit codes."""
    parser = argparse.ArgumentParser(description="Bring Prometheus, Alertmanager, Chromium and tmux for the tests.")
    parser.add_argument("--list", action="store_true", help="only say where each is found")
    options = parser.parse_args(arguments)
    if options.list:
        missing = [program for program in PROGRAMS if not find(program)]
    else:
        missing = bring_all(PROGRAMS, root=os.geteuid() == 0)
    for program in PROGRAMS:
        print(f"{program.name + ':':14} {find(program) or 'missing'}")
    if missing:
        print(remedy(missing), file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
