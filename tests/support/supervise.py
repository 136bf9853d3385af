"""Runs ``specwatch.vllm.process.run`` in a process of its own, as signals ask for; its argument is a JSON plan."""

from __future__ import annotations

import json
import sys

from specwatch.errors import SpecwatchError
from specwatch.vllm import process
from specwatch.vllm.endpoint import Endpoint
from specwatch.vllm.restarts import Restarts


def main() -> None:
    """Supervise the command of the plan.

    Keys are command, port, ready_timeout, sidecar, environment, restarts (the fields of the policy).
    """
    plan = json.loads(sys.argv[1])
    process.LEFTOVER_GRACE = process.START_STOP_GRACE = 0.5
    process._PROGRESS_INTERVAL = 0.5
    process._HEALTH_TIMEOUT = 60.0

    def say(text: str) -> None:
        print("specwatch │", text, file=sys.stderr, flush=True)

    launch = process.Launch(
        tuple(plan["command"]),
        Endpoint("127.0.0.1", plan["port"]),
        plan.get("ready_timeout", 60.0),
        tuple(plan["sidecar"]) if "sidecar" in plan else None,
        plan.get("environment", {}),
        Restarts(**plan["restarts"]) if "restarts" in plan else None,
        lambda count: say(f"restart number {count}"),
    )
    try:
        sys.exit(process.run(launch, say))
    except SpecwatchError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
