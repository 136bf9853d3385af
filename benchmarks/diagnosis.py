"""The diagnosis against incidents whose cause is known: a confusion table.

    python -m benchmarks.diagnosis --write         # the table that is committed
    python -m benchmarks.diagnosis --each 20       # a quick look

Every incident is simulated (``specwatch.lab.incidents``), watched as the sidecar watches a server, and diagnosed once,
fifteen minutes of its story after it began. Thresholds were set on seeds of the training half; the table is of seeds
that were never looked at before.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from specwatch.collect.targets import Target
from specwatch.errors import SpecwatchError
from specwatch.lab.incidents import HEALTHY, ILL, SCALE, Incident, Story
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.watch import TargetWatch, WatchSettings
from specwatch.signals.evidence import Evidence
from specwatch.signals.findings import Finding, Level
from specwatch.signals.fleet_diagnosis import diagnose_fleet
from specwatch.signals.speedup import Speedup, SpeedupKind

SCRAPE = 15.0 * SCALE
"""Simulated seconds between scrapes."""

TRAINING, HELD_OUT = "training", "held-out-4"
"""Sets of seeds. Two earlier held-out sets were looked at, and count as training now."""

RESULT = Path(__file__).parent / "results" / "diagnosis.txt"


class Observer:
    """One server as the sidecar watches it."""

    def __init__(self, server: SimulatedServer, incident: Incident) -> None:
        self._server, self._incident = server, incident
        settings = replace(WatchSettings(), schedule=tuple(incident.schedule)).in_scaled_time(SCALE)
        self._watch = TargetWatch(Target(server.name, "http://127.0.0.1:0"), settings)

    def scrape(self) -> None:
        """Take in the server's page as it is now."""
        self._watch.release = self._release()
        self._watch.observe(self._server.unix_time, self._server.snapshot())

    def _release(self) -> str:
        released = self._incident.released if self._server.name == self._incident.subject else {}
        return next((name for at, name in released.items() if self._server.now >= at), self._server.release)

    def evidence(self) -> Evidence:
        """What is known of it now."""
        evidence = self._watch.evidence(self._server.unix_time)
        if evidence is None:
            raise SpecwatchError(f"{self._server.name}: nothing was scraped")
        return replace(evidence, speedup=self._calibrated(evidence) if self._incident.calibrated else None)

    def _calibrated(self, evidence: Evidence) -> Speedup | None:
        """The speedup as a calibration of this server gives it: step costs at its batch size, by its own truth."""
        length, batch = evidence.number("acceptance_length"), evidence.number("running_requests")
        if length is None or batch is None or self._server.k is None:
            return None
        value = self._server.cost.speedup(length, round(batch), self._server.k)
        return Speedup(value, None, None, SpeedupKind.CALIBRATED, "a calibration")


@dataclass(frozen=True)
class Outcome:
    """What was said of one incident."""

    kind: str
    expected: frozenset[str]
    said: str
    text: str
    bystanders_ill: int
    """Replicas beside a subject that alone is ill, and yet called ill."""

    @property
    def right(self) -> bool:
        """Whether the first finding is the expected one and no healthy replica was called ill."""
        return self.said in self.expected and not self.bystanders_ill


def diagnosed(story: Story, half: str, seed: int) -> Outcome:
    """Simulate one incident and diagnose it."""
    incident = story(random.Random(f"{half}/{story.__name__}/{seed}"))  # noqa: S311 (a simulation)
    observers = {server.name: Observer(server, incident) for server in incident.servers}
    scrapes = round(incident.seconds / SCRAPE)
    for _ in range(scrapes):
        for server in incident.servers:
            server.advance(SCRAPE)
            observers[server.name].scrape()
    findings = diagnose_fleet({name: observer.evidence() for name, observer in observers.items()})
    first = findings[incident.subject][0]
    return Outcome(incident.kind, incident.expected, first.code, first.text, _bystanders_ill(incident, findings))


def _bystanders_ill(incident: Incident, findings: dict[str, tuple[Finding, ...]]) -> int:
    if "traffic-changed" in incident.expected:
        return 0
    return sum(found[0].level is Level.PROBLEM for name, found in findings.items() if name != incident.subject)


def outcomes(stories: Sequence[Story], each: int, half: str, jobs: int) -> Iterator[Outcome]:
    """Every incident ``each`` times, every look of a healthy server a quarter as often: there are ten of them."""
    work = [(story, seed) for story in stories for seed in range(each if story in ILL else -(-each // 4))]
    if jobs == 1:
        yield from (diagnosed(story, half, seed) for story, seed in work)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(_apply, half), work, chunksize=8)


def _apply(half: str, task: tuple[Story, int]) -> Outcome:
    return diagnosed(task[0], half, task[1])


def table(results: Iterable[Outcome]) -> str:
    """The confusion table: a line a kind, with what was said instead where it was wrong."""
    by_kind: dict[str, list[Outcome]] = {}
    for outcome in results:
        by_kind.setdefault(outcome.kind, []).append(outcome)
    lines = [f"{'incident':38} {'n':>5} {'right':>7}  said instead"]
    for kind, found in by_kind.items():
        right = sum(outcome.right for outcome in found)
        wrong = Tally(_mistake(outcome) for outcome in found if not outcome.right)
        said = ", ".join(f"{code} {count}" for code, count in wrong.most_common())
        lines.append(f"{kind:38} {len(found):5} {right / len(found):7.1%}  {said}")
    everything = [outcome for found in by_kind.values() for outcome in found]
    for name, part in (
        ("incidents", [o for o in everything if not o.kind.startswith("healthy")]),
        ("healthy", [o for o in everything if o.kind.startswith("healthy")]),
    ):
        if part:
            lines.append(f"{'all ' + name:38} {len(part):5} {sum(o.right for o in part) / len(part):7.1%}")
    return "\n".join(lines) + "\n"


def _mistake(outcome: Outcome) -> str:
    return "a bystander ill" if outcome.said in outcome.expected else outcome.said


def main() -> None:
    """Run it all and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diagnosis", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=200, help="incidents of every kind (default: 200)")
    parser.add_argument(
        "--half", choices=(TRAINING, HELD_OUT), default=HELD_OUT, help="which seeds (default: held-out)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--only", default="", help="stories whose name contains this, with their mistakes printed")
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results/diagnosis.txt")
    options = parser.parse_args()
    stories = [story for story in (*ILL, *HEALTHY) if options.only in story.__name__]
    began = time.monotonic()
    results = list(outcomes(stories, options.each, options.half, options.jobs))
    text = table(results)
    print(text, end="")
    print(f"{len(results)} incidents, {options.half} seeds, in {time.monotonic() - began:.0f} s")
    if options.only:
        print(*(f"{o.kind}: {o.said}: {o.text}" for o in results if not o.right), sep="\n")
    if options.write:
        RESULT.parent.mkdir(exist_ok=True)
        command = f"python -m benchmarks.diagnosis --each {options.each} --half {options.half}"
        RESULT.write_text(f"{command}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
