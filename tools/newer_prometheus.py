"""Prometheus, promtool and amtool from a newer Debian, beside the system's: what is generated has to hold on both.

    python tools/newer_prometheus.py

apt is pointed at lists, a cache and a status of its own, so that the system's packages and lists stay as they are. The
mirror is the one that this machine uses already. What comes is unpacked under .cache/newer and needs no root.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SUITE = "sid"
"""Debian's newest: its version moves."""

NEWER = Path(__file__).resolve().parent.parent / ".cache" / "newer"
PROGRAMS = {"prometheus": "prometheus", "promtool": "promtool", "amtool": "prometheus-alertmanager"}
"""Each with its package; in newer suites promtool has one of its own."""

PATIENCE = 300
"""Seconds for apt: a suite's lists are some 10 MB."""


@dataclass(frozen=True)
class NotToBeHad:
    """Why there is none."""

    reason: str


def program(name: str) -> Path | NotToBeHad:
    """The newer program of that name, one of PROGRAMS, brought the first time."""
    path = NEWER / "usr" / "bin" / name
    if not path.is_file():
        try:
            _bring(name)
        except (OSError, subprocess.SubprocessError, ValueError) as problem:
            output = getattr(problem, "stderr", None) or ""
            return NotToBeHad(f"{problem} {output[-300:]}".strip())
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
    return path if done.returncode == 0 else NotToBeHad(f"{path} does not run: {done.stderr[-300:]}")


def _bring(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        # apt drops to a user of its own for downloads.
        base.chmod(0o777)
        environment = {"APT_CONFIG": str(_apt_config(base)), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        for command in (["update"], ["download", PROGRAMS[name]]):
            _run(["apt-get", "--quiet", *command], base, environment)
        archive = next(base.glob("*.deb"))
        # Whoever brings it at the same time finds all of it or nothing.
        unpacked = base / "unpacked"
        _run(["dpkg", "-x", str(archive), str(unpacked)], base, environment)
        target = NEWER / "usr" / "bin"
        target.mkdir(parents=True, exist_ok=True)
        part = target / f".{name}-{base.name}"
        part.write_bytes((unpacked / "usr" / "bin" / name).read_bytes())
        part.chmod(0o755)
        part.replace(target / name)


def _apt_config(base: Path) -> Path:
    for name in ("lists/partial", "archives/partial"):
        (base / name).mkdir(parents=True)
    (base / "status").touch()
    (base / "sources.list").write_text(f"deb {_mirror()} {SUITE} main\n")
    config = base / "apt.conf"
    config.write_text(
        f'Dir::Etc::SourceList "{base}/sources.list";\n'
        'Dir::Etc::SourceParts "/dev/null";\n'
        f'Dir::State::Lists "{base}/lists";\n'
        f'Dir::State::Status "{base}/status";\n'
        f'Dir::Cache "{base}";\n'
    )
    return config


def _mirror() -> str:
    """Address of the Debian mirror that the system uses; ValueError without one."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    text = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    addresses = re.findall(r"^(?:deb(?: \[[^\]]*\])?|URIs:)\s+(\S+)", text, flags=re.MULTILINE)
    mirrors = [str(address) for address in addresses if address.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise ValueError("apt's sources name no Debian mirror")
    return mirrors[0]


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=PATIENCE)


def main() -> int:
    """Bring them and say where they are."""
    found = {name: program(name) for name in PROGRAMS}
    for name, place in found.items():
        print(place if isinstance(place, Path) else f"no newer {name}: {place.reason}")
    return 0 if all(isinstance(place, Path) for place in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
