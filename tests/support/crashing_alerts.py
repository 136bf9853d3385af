"""A program that tries every moment at which a sidecar can be killed while it delivers: ``FOLDER SINK_URL``.

A server goes down and recovers. The first life is killed at its n-th step, a step being before or after any transaction
and any post; the next ones live through the rest. For every n it prints ``n target world``, the name by which the sink
knows it and what the world did meanwhile; the last n is the one at which nobody was killed any more.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from specwatch.alerting import delivery
from specwatch.alerting.catalogue import RATE_WINDOW
from specwatch.alerting.receivers import receivers
from specwatch.alerting.sparkline import Course
from specwatch.config import SidecarConfig
from specwatch.sidecar.alerts import AlertBook
from specwatch.sidecar.service import Clock
from specwatch.sidecar.store.database import Database
from specwatch.sidecar.watch import TargetWatch

START = 1_700_000_000.0
STEP = 15.0
DOWN_STEPS = 20
"""Five minutes: the alert pends for two, and its message waits half a minute."""
STEPS = 30


class World(Clock):
    """The time that was reached, in a file: the world goes on while the sidecar is dead."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.step = int(path.read_text()) if path.exists() else 0

    def now(self) -> float:
        """Unix seconds."""
        return START + self.step * STEP

    def advance(self) -> None:
        """One step on."""
        self.step += 1
        self.path.write_text(str(self.step))

    def watch(self, target: str) -> TargetWatch:
        """What the sidecar sees of the server."""
        values = {"target_up": float(self.step >= DOWN_STEPS)}
        seen = SimpleNamespace(
            target=SimpleNamespace(name=target),
            model_name="llama",
            judged_values=lambda at: values,
            last_hours=lambda now: Course("Acceptance rate", RATE_WINDOW, (None,)),
        )
        return cast(TargetWatch, seen)


def kill_at(number: int) -> None:
    """End this process at its n-th step, as by a power cut."""
    steps = itertools.count(1)

    def step() -> None:
        if next(steps) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    transact, post = Database._transact, delivery.post

    def transact_or_die(self: Database, begin: str, work: Callable[..., Any]) -> Any:
        step()
        result = transact(self, begin, work)
        step()
        return result

    async def post_or_die(*arguments: Any) -> Any:
        step()
        attempt = await post(*arguments)
        step()
        return attempt

    Database._transact = transact_or_die  # type: ignore[method-assign]
    delivery.post = post_or_die  # type: ignore[attr-defined]


async def live(folder: Path, target: str, url: str) -> None:
    """Watch the world from where it stands to its end, each step's messages delivered before the next."""
    world = World(folder / f"{target}.step")
    database = Database(folder / f"{target}.db")
    told = receivers(
        SidecarConfig(
            slack_webhook_file=folder / "slack", pagerduty_routing_key_file=folder / "pagerduty", pagerduty_url=url
        )
    )
    book = AlertBook(told, clock=world, database=database)
    async with book.delivering():
        while world.step < STEPS:
            await book.judge(world.watch(target), world.now(), lambda: ())
            while book._keeper.is_busy or book._delivery.waiting():
                await asyncio.sleep(0.001)
            world.advance()
    database.close()


def life(number: int | None, *where: Any) -> bool:
    """Whether a life, killed at its n-th step or never, came to its end."""
    child = os.fork()
    if child == 0:
        if number is not None:
            kill_at(number)
        asyncio.run(live(*where))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        sys.exit(f"{where}: a life failed by itself")
    return os.WIFEXITED(status)


def main() -> None:
    """Try every step, in a world that waits for the next life and in one where the server recovers meanwhile."""
    folder, url = Path(sys.argv[1]), sys.argv[2]
    for world in ("waits", "recovers"):
        for number in itertools.count(1):
            target = f"{world}-{number}"
            survived = life(number, folder, target, url)
            if not survived:
                if world == "recovers":
                    progress = World(folder / f"{target}.step")
                    progress.path.write_text(str(max(progress.step, DOWN_STEPS)))
                life(None, folder, target, url)
            print(number, target, world, flush=True)
            if survived:
                break


if __name__ == "__main__":
    main()
