"""A stand-in for vLLM's server module: an HTTP server that behaves as the plan in $FAKE_VLLM says.

``install`` makes a folder that, on PYTHONPATH, is an installed vLLM as far as Python can tell.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SLEEPER = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('asleep', flush=True); time.sleep(600)"
)
"""A worker that does not end when it is told to."""


def install(folder: Path, version: str = "0.32.0", distribution: str = "vllm") -> dict[str, str]:
    """Install this stand-in below ``folder``; gives the environment to run with."""
    module = folder / "vllm" / "entrypoints" / "openai"
    module.mkdir(parents=True)
    for package in (folder / "vllm", folder / "vllm" / "entrypoints", module):
        (package / "__init__.py").touch()
    shutil.copy(__file__, module / "api_server.py")
    metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (metadata / "top_level.txt").write_text("vllm\n")
    return os.environ | {"PYTHONPATH": str(folder)}


class _Handler(BaseHTTPRequestHandler):
    ready_at = 0.0
    ready_when: Path | None = None
    seen_ready = threading.Event()

    def do_GET(self) -> None:
        ready = time.monotonic() >= self.ready_at and (self.ready_when is None or self.ready_when.exists())
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if ready:
            self.seen_ready.set()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def _worker(own_session: bool) -> int:
    """Start a process that stays behind; its id once it ignores SIGTERM."""
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, start_new_session=own_session)
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def _plan() -> dict[str, Any]:
    """The plan of this start: with ``runs``, each start takes the next of them, the last one for all later ones."""
    plan: dict[str, Any] = json.loads(os.environ.get("FAKE_VLLM", "{}"))
    if "runs" not in plan:
        return plan
    count = Path(os.environ["MARK"], "starts")
    started = len(count.read_text()) if count.exists() else 0
    count.write_text("x" * (started + 1))
    run: dict[str, Any] = plan["runs"][min(started, len(plan["runs"]) - 1)]
    return run


def _end_unasked(plan: dict[str, Any]) -> None:
    """Return only where the plan has it go on until it is asked to end."""
    if "exit_after" in plan:
        _Handler.seen_ready.wait()
        time.sleep(plan["exit_after"])
        os._exit(plan.get("exit_code", 0))
    if "exit_when" in plan:
        while not Path(plan["exit_when"]).exists():
            time.sleep(0.05)
        os._exit(plan.get("exit_code", 0))
    if "kill_self" in plan:
        _Handler.seen_ready.wait()
        time.sleep(plan["kill_self"])
        os.kill(os.getpid(), signal.SIGKILL)


def serve() -> None:
    """Behave as planned.

    Keys are ready_after, exit_before, exit_code, ignore_signals, workers, variables (to print), runs; exit_after and
    kill_self, both in seconds after somebody has seen it ready; ready_when and exit_when, files that it waits for.
    """
    plan = _plan()
    port = int(sys.argv[sys.argv.index("--port") + 1])
    print("a log line on standard output", sys.argv[1:], flush=True)
    print("a log line on standard error", file=sys.stderr, flush=True)
    received: list[int] = []
    over = threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        received.append(number)
        print("received", signal.Signals(number).name, flush=True)
        if len(received) > plan.get("ignore_signals", 0):
            over.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    if plan.get("workers"):
        print("workers", _worker(own_session=False), _worker(own_session=True), flush=True)
    if "exit_before" in plan:
        os._exit(plan["exit_before"])
    _Handler.ready_at = time.monotonic() + plan.get("ready_after", 0.0)
    _Handler.ready_when = Path(plan["ready_when"]) if "ready_when" in plan else None
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("serving", flush=True)
    for name in plan.get("variables", ()):
        print(f"{name}={os.environ.get(name)}", flush=True)
    _end_unasked(plan)
    while not over.wait(0.05):
        pass
    os._exit(plan.get("exit_code", 0))


if __name__ == "__main__":
    serve()
