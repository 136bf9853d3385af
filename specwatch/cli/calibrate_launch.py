"""The servers of ``specwatch calibrate --launch``: one launch plan, started with each K in turn and without any."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import yaml

from specwatch.cli.launch_plan import VARIABLES
from specwatch.config import load
from specwatch.errors import InputError
from specwatch.lab.child import free_port, running
from specwatch.vllm.plan import LaunchPlan

_KEPT = {"target", "vllm", "vllm_version", "ready_timeout", "hf_token_file"}
"""Entries of a plan that say nothing about speculation, and are not only about running it for long."""
_OF_K = {"num_speculative_tokens", "num_speculative_tokens_per_batch_size", "max_spec_concurrency", "calibration"}
"""Entries that say how many tokens to draft: the calibration decides that."""
_NOT_OF_SPECULATION = (
    _KEPT
    | _OF_K
    | {*("sidecar", "sidecar_listen", "sidecar_config", "restart", "max_restarts", "restart_delay", "api_key_file")}
)
_ADDRESS = {"host", "port", "uds", "api-key", "api_key"}
"""Options of vLLM that say where it serves and whom: these servers are on loopback, for this process alone."""

Waiting = Callable[[str], None]
"""Hears in words what is being waited for."""


def read_plan(path: Path) -> LaunchPlan:
    """The plan, environment variables included; InputError where it speculates not at all."""
    plan = load(LaunchPlan, path, {}, VARIABLES)
    if plan.target is None:
        raise InputError(f"--launch {path}: it names no target: the model to serve")
    if not (plan.model_fields_set - _NOT_OF_SPECULATION):
        raise InputError(f"--launch {path}: it asks for no speculation; name a draft or a method")
    return plan


def server_plan(plan: LaunchPlan, k: int, port: int) -> str:
    """The plan of one server, as YAML: with K draft tokens, or for 0 without speculation and otherwise the same."""
    given = plan.model_dump(mode="json", include=plan.model_fields_set)
    dropped = _NOT_OF_SPECULATION - _KEPT
    content = {key: value for key, value in given.items() if key in _KEPT or (k and key not in dropped)}
    options = {name: value for name, value in plan.vllm.items() if name.removeprefix("--") not in _ADDRESS}
    content["vllm"] = options | {"host": "127.0.0.1", "port": port}
    content["sidecar"] = False
    if k:
        content["num_speculative_tokens"] = k
    return yaml.safe_dump(content, sort_keys=False)


class InTurn:
    """Starts the servers one after the other, each in its time on all of the machine. To be used with ``async with``.

    Logs go to ``folder``, a file a server.
    """

    def __init__(self, plan: LaunchPlan, folder: Path, waiting: Waiting) -> None:
        self._plan = plan
        self._folder = folder
        self._waiting = waiting
        self._running: int | None = None
        self._url = ""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> InTurn:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._stack.aclose()

    async def url(self, k: int) -> str:
        """Where the server with that K serves; starts it after the other has ended."""
        if self._running == k:
            return self._url
        await self._stack.aclose()
        self._running = None
        await self._start(k)
        self._running = k
        return self._url

    async def _start(self, k: int) -> None:
        what = f"vLLM with K {k}" if k else "vLLM without speculation"
        port = free_port()
        name = f"k{k}" if k else "baseline"
        file = self._folder / f"{name}.yaml"
        file.write_text(server_plan(self._plan, k, port))
        # What variables say is in the plan already; left to themselves they would make the baseline speculate.
        silenced = {key: "" for key in os.environ if key.startswith(VARIABLES)}
        command = [sys.executable, "-m", "specwatch", "launch", "--plan", str(file)]
        log = self._folder / f"{name}.log"
        child = await self._stack.enter_async_context(running(what, command, log, silenced))
        self._url = f"http://127.0.0.1:{port}"
        await child.until_healthy(
            f"{self._url}/health",
            self._plan.ready_timeout,
            lambda seconds: self._waiting(f"starting {what}, {seconds:.0f} s"),
        )
