"""What ``specwatch calibrate`` shows: its progress on standard error, and a table at the end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from specwatch.measure.calibration.blocks import Block, Design
from specwatch.measure.calibration.cells import Measured
from specwatch.measure.calibration.result import Result
from specwatch.measure.calibration.runs import Run
from specwatch.measure.calibration.stats import Estimate
from specwatch.measure.calibration.words import costs, crossings, milliseconds, recommendation

SPEED_WINDOW = 1800.0
"""Seconds over which the time left is judged: one domain may be several times slower than another."""


class Screen:
    """A bar with the time left, on a terminal; elsewhere nothing."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def waiting(self, text: str) -> None:
        """Something takes its time."""
        self._progress.update(self._task, description=text)

    def block(self, block: Block, run: Run | None) -> None:
        """A block begins, or has ended."""
        if run is None:
            who = f"K {block.k}" if block.k else "no speculation"
            what = f"{block.cell.domain}, {block.cell.concurrency} at a time, {who}"
            self._progress.update(self._task, description=f"repetition {block.repetition + 1}: {what}")
        else:
            self._progress.advance(self._task)


@contextmanager
def screen(console: Console, design: Design, done: Collection[Block]) -> Iterator[Screen]:
    """The screen of a measurement of which some blocks are done already."""
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left · {task.description}", markup=False),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal, speed_estimate_period=SPEED_WINDOW
    ) as progress:
        task = progress.add_task("asking the servers", total=len(design.blocks()), completed=len(done))
        yield Screen(progress, task)


def show(console: Console, result: Result) -> None:
    """The calibration as tables: every cell, all domains together, and what is recommended."""
    console.print(_table(result.cells), highlight=False)
    console.print(_mixed(result), highlight=False)
    for line in (*crossings(result), *costs(result), recommendation(result)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _table(cells: Sequence[Measured]) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        title="Speedup by domain, K and concurrency; 95 % intervals, TPOT in ms",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("domain, K", no_wrap=True)
    failed = any(cell.errors for cell in cells)
    for name in (
        "conc.",
        "speedup",
        "interval",
        "tokens",
        "TPOT",
        "plain",
        "equal",
        *(["failed"] if failed else []),
    ):
        table.add_column(name, justify="right", no_wrap=True)
    several = len({cell.cell.temperature for cell in cells}) > 1
    before = ""
    for each in cells:
        at = f" at {each.cell.temperature:g}" if several else ""
        group = f"{each.cell.domain}{at}, {each.k}"
        if before not in ("", group):
            table.add_section()
        table.add_row(
            group if group != before else "",
            str(each.cell.concurrency),
            _marked(each.speedup),
            _interval(each.speedup),
            "" if each.acceptance_length is None else f"{each.acceptance_length:.2f}",
            milliseconds(each.mean_tpot),
            milliseconds(each.baseline_mean_tpot),
            f"{each.texts.equal / each.texts.compared:.0%}" if each.texts and each.texts.compared else "",
            *([str(each.errors)] if failed else []),
        )
        before = group
    return table


def _mixed(result: Result) -> Table:
    shares = ", ".join(f"{name} {share:.0%}" for name, share in result.shares.items())
    table = Table(box=SIMPLE_HEAD, title=f"All traffic together ({shares})", title_justify="left", pad_edge=False)
    table.add_column("conc.", justify="right")
    for k in result.design.ks:
        table.add_column(f"K {k}", justify="right")
        table.add_column("95 % interval", justify="right")
    for concurrency in result.design.ladder:
        row = [each.speedup for each in result.pools if each.concurrency == concurrency]
        table.add_row(str(concurrency), *(text for speedup in row for text in (_marked(speedup), _interval(speedup))))
    return table


def _marked(speedup: Estimate) -> str:
    colour = {True: "green", False: "red", None: "yellow"}[speedup.above_one]
    return f"[{colour}]{speedup.value:.2f} ×[/]"


def _interval(speedup: Estimate) -> str:
    return "" if speedup.low is None else f"{speedup.low:.2f} to {speedup.high:.2f}"
