"""A sidecar that is killed at every step of a delivery, with real processes, files and sockets."""

from __future__ import annotations

import asyncio
import sys
from itertools import groupby
from pathlib import Path

import pytest

from specwatch.lab.sink import Sink

ROOT = Path(__file__).parents[2]
PROGRAM = ("-m", "tests.support.crashing_alerts")


def told(sink: Sink, target: str) -> tuple[list[str], list[str]]:
    """What PagerDuty and Slack were told of a server, in order; what is repeated at once counts once.

    So PagerDuty counts: a trigger for an incident that is open, and a resolve for one that is not, change nothing.
    """
    events = [m.payload["event_action"] for m in sink.pagerduty if m.payload["dedup_key"].endswith(f"/{target}")]
    titles = [m.text.title for m in sink.slack if f"{target} cannot" in m.text.title]
    words = ["trigger" if "Firing" in title else "resolve" for title in titles]
    return [event for event, _ in groupby(events)], [word for word, _ in groupby(words)]


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_kill_at_any_step_loses_no_alert_and_opens_no_incident_twice(tmp_path):
    for name, secret in (("slack", ""), ("pagerduty", "0" * 32)):
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o600)
    async with Sink(keep=100_000) as sink:
        (tmp_path / "slack").write_text(sink.slack_url)
        program = await asyncio.create_subprocess_exec(
            sys.executable, *PROGRAM, str(tmp_path), sink.pagerduty_url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await program.communicate()
    assert program.returncode == 0
    tried = [line.split() for line in output.decode().splitlines()]
    wrong = {}
    for _, target, world in tried:
        heard = told(sink, target)
        whole = ["trigger", "resolve"]
        # What recovers while nobody watches, and before anybody was told, is no news.
        right = [whole] if world == "waits" else [whole, []]
        if any(one not in right for one in heard):
            wrong[target] = heard
    assert wrong == {}
    # Of an undisturbed life: 2 messages to 2 receivers are posted, and written before and after.
    assert len(tried) > 2 * 2 * (2 * 2 * 2)
    assert sink.refused == []
