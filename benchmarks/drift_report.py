"""The benchmark of drift as tables and a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.drift_contenders import OURS
from benchmarks.drift_results import Delays, Difference, Judged, Results, Row
from benchmarks.drift_scenarios import SIX

mpl.use("Agg")

from matplotlib import pyplot as plt

BEGIN, END = "<!-- python -m benchmarks.drift --write -->", "<!-- end -->"
"""Marks of the tables in docs/drift.md."""


def report(results: Results) -> str:
    """All tables, as Markdown."""
    names = list(results.judged[SIX])
    others = [name for name in names if name != OURS]
    loads = ["day, night, restarts, K" if load.diurnal else load.name for load in results.judged]
    parts = [
        "### False alarms in 30 healthy days: mean and most of a stream, and the setting",
        _table(("detector", *loads), _false_alarms(results, names)),
        "### Delay after a step: mean (95 % within), in intervals of 15 s",
        _table(
            ("change", "bound", "÷ bound", "÷ bound once learned", *names),
            (_delays(row, names) for row in results.rows),
        ),
        f"### {OURS}'s delay less theirs on the same trials: mean ± standard error, in intervals",
        _table(("change", *others), (_differences(row, others) for row in results.rows)),
        _verdict(results),
        "### One replica of eight falls by 10 points",
        _eighth(results.eighth),
        "### The plain rule's blindness",
        _table(("traffic", "rate below 0.60 for 5 minutes", OURS), results.blindness),
        "### Recorded from vLLM: json, then es, json again, then one es in four",
        _table(("detector", "alarms, in intervals after the change"), results.recorded),
    ]
    return "\n\n".join(parts)


def write(text: str, page: Path) -> None:
    """Put the tables and the figure between the page's two marks."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    picture = "![Mean delay over the size of the fall](images/drift.png)"
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{picture}\n\n{END}{after}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _false_alarms(results: Results, names: Sequence[str]) -> Iterable[Sequence[str]]:
    for name in names:
        yield name, *(_months(judged.get(name)) for judged in results.judged.values())


def _months(judged: Judged | None) -> str:
    if judged is None:
        return "not run"
    counts, setting = judged.false_alarms, judged.setting
    at = f" at {setting.parameter:.3g}" if setting.entry.tuned else ""
    if setting.entry.slow:
        return f"{sum(counts)} in {judged.days} days{at}"
    return f"{sum(counts) / len(counts):.2f} ≤ {max(counts)} ({len(counts)} streams){at}"


def _delays(row: Row, names: Sequence[str]) -> Sequence[str]:
    ours = row.delays[OURS].mean
    limits = [f"{ours / least:.2f}" if least else "" for least in (row.bound, row.learned)]
    bound = f"{row.bound:.1f}" if row.bound else ""
    return row.step.name, bound, *limits, *(_delay(row.delays.get(name)) for name in names)


def _delay(delays: Delays | None) -> str:
    if delays is None or not delays.found:
        return "not run" if delays is None else f"early {delays.too_early}×"
    if delays.missed == len(delays.found):
        return "never"
    notes = [f"{delays.missed} of {len(delays.found)} missed"] if delays.missed else []
    notes += [f"early {delays.too_early}×"] if delays.too_early else []
    return (
        f"{'>' if delays.missed else ''}{delays.mean:.1f} ({delays.late:.0f}){''.join(f', {note}' for note in notes)}"
    )


def _differences(row: Row, others: Sequence[str]) -> Sequence[str]:
    return row.step.name, *(_difference(_less(row, name)) for name in others)


def _less(row: Row, name: str) -> Difference | None:
    return row.delays[OURS].less(row.delays[name]) if name in row.delays else None


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return ""
    shown = f"{difference.mean:+.1f} ± {difference.error:.1f}"
    return f"**{shown}**" if difference.slower else shown


def _verdict(results: Results) -> str:
    """Whether the goals are reached, where not, and by how much."""
    lines = []
    for row in results.rows:
        ours = row.delays[OURS].mean
        if row.bound and row.step.points >= 0.05 and ours > 1.5 * row.bound:
            learned = f"; {ours / row.learned:.2f} times what the time learned allows" if row.learned else ""
            lines.append(f"* {row.step.name}: {ours / row.bound:.2f} times the bound, above 1.5{learned}")
        for name in row.delays:
            difference = _less(row, name)
            if difference is not None and difference.slower:
                lines.append(f"* {row.step.name}: {name} was faster, by {_difference(difference)} intervals")
    return "\n".join(lines or ["* Within 1.5 times the bound from 5 points on, and nothing else was faster."])


def _eighth(eighth: Sequence[tuple[int | None, int, int | None]]) -> str:
    found = [late for late, _, _ in eighth if late is not None]
    pooled = [late for _, _, late in eighth if late is not None]
    mean = f", after {sum(found) / len(found):.1f} intervals" if found else ""
    return (
        f"{OURS} found it on the replica in {len(found)} of {len(eighth)} trials{mean}; the seven others alarmed "
        f"{sum(others for _, others, _ in eighth)} times, and the fleet's sums, 1.25 points lower, {len(pooled)} times."
    )


def draw(results: Results, path: Path) -> None:
    """Mean delays over the size of the step, against Lorden's bound."""
    figure, axes = plt.subplots(figsize=(8, 4.5))
    rows = [row for row in results.rows if row.step.usual]
    points = [row.step.points * 100 for row in rows]
    axes.plot(points, [row.bound for row in rows], "k--", label="Lorden's bound")
    for name in results.judged[SIX]:
        reached = [(x, row.delays.get(name)) for x, row in zip(points, rows, strict=True)]
        # A mean over trials of which most found nothing is no delay.
        shown = [(x, found.mean) for x, found in reached if found and found.missed * 2 < len(found.found)]
        if shown:
            axes.plot(*zip(*shown, strict=True), marker="o", linewidth=3 if name == OURS else 1.2, label=name)
    axes.set(xscale="log", yscale="log", xlabel="fall of the acceptance rate, points")
    axes.set(ylabel="mean delay, intervals of 15 s", xticks=points, xticklabels=[f"{x:g}" for x in points])
    axes.minorticks_off()
    axes.set_title("Equal false alarms; the reference learned for an hour", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
