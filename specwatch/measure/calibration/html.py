"""The report of a calibration: one HTML file that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from html import escape
from pathlib import Path

from specwatch.measure.calibration.cells import Measured
from specwatch.measure.calibration.chart import Line, Scale, chart, scale
from specwatch.measure.calibration.result import Result
from specwatch.measure.calibration.stats import Estimate, geometric_mean
from specwatch.measure.calibration.words import costs, crossings, milliseconds, recommendation

STYLE = Path(__file__).with_name("report.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing is fetched and nothing runs, whatever a domain or model is called."""
GROUPS = (
    ("", ("K", "requests at a time")),
    ("Speedup", ("", "95 % interval")),
    ("Draft tokens accepted", ("by position, %", "tokens a step")),
    ("TPOT, ms: mean", ("with", "without")),
    ("p99, client", ("with", "without")),
    ("ITL, ms: p50", ("with", "without")),
    ("p99", ("with", "without")),
    ("Tokens/s", ("with", "without")),
    ("Texts", ("equal", "part after")),
    ("", ("failed",)),
)
"""Columns under their common headings; with and without speculation."""


def report(result: Result) -> str:
    """The whole page."""
    title = f"What speculation is worth on {result.subject.target}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="about">{escape(_about(result))}</p>',
            f'<p class="verdict"><b>{escape(recommendation(result))}</b></p>',
            _list([*crossings(result), *costs(result)]),
            "<h2>Speedup by requests at a time</h2>",
            f'<div class="charts">{"".join(_charts(result))}</div>',
            *(part for domain in result.design.domains for part in _domain(result, domain.name)),
            "<h2>How it was measured</h2>",
            f'<p class="quiet">{escape(_method(result))}</p>',
            "</html>",
            "",
        ]
    )


def _about(result: Result) -> str:
    subject = result.subject
    when = datetime.fromtimestamp(result.created, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    drafting = " · ".join(part for part in (subject.method, subject.draft) if part)
    vllm = f"vLLM {subject.vllm}" if subject.vllm else ""
    return " · ".join(part for part in (drafting, vllm, subject.gpu or "", when) if part)


def _list(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _charts(result: Result) -> list[str]:
    drawn = [(domain.name, _lines(result, domain.name)) for domain in result.design.domains]
    if len(drawn) > 1:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in result.shares.items())
        drawn.insert(0, (f"All together: {shares}", _mixed_lines(result)))
    axes = scale([line for _, lines in drawn for line in lines])
    return [_figure(name, lines, axes) for name, lines in drawn]


def _figure(name: str, lines: Sequence[Line], axes: Scale) -> str:
    return f"<figure><h3>{escape(name)}</h3>{chart(name, lines, axes)}</figure>"


def _lines(result: Result, domain: str) -> list[Line]:
    """A line a K; temperatures together, unless there is one alone."""
    lines = []
    for k in result.design.ks:
        own = [each for each in result.cells if each.k == k and each.cell.domain == domain]
        points = [(b, _together([c.speedup for c in own if c.cell.concurrency == b])) for b in result.design.ladder]
        lines.append(Line(f"K {k}", tuple(points)))
    return lines


def _together(speedups: Sequence[Estimate]) -> Estimate:
    if len(speedups) == 1:
        return speedups[0]
    return Estimate(geometric_mean([each.value for each in speedups]))


def _mixed_lines(result: Result) -> list[Line]:
    return [
        Line(f"K {k}", tuple((each.concurrency, each.speedup) for each in result.pools if each.k == k))
        for k in result.design.ks
    ]


def _domain(result: Result, name: str) -> list[str]:
    parts = []
    for temperature in result.design.temperatures:
        cells = [c for c in result.cells if c.cell.domain == name and c.cell.temperature == temperature]
        parts += [f"<h2>{escape(name)}, temperature {temperature:g}</h2>", _table(cells)]
    return parts


def _table(cells: Sequence[Measured]) -> str:
    groups = "".join(f'<th colspan="{len(names)}" scope="colgroup">{title}</th>' for title, names in GROUPS)
    head = "".join(f'<th scope="col">{name}</th>' for _, names in GROUPS for name in names)
    rows = []
    before = None
    for cell in cells:
        first = cell.k != before
        before = cell.k
        values = "".join(f"<td>{value}</td>" for value in _row(cell, first))
        rows.append(f'<tr class="first">{values}</tr>' if first else f"<tr>{values}</tr>")
    return f'<div class="scroll"><table><tr class="groups">{groups}</tr><tr>{head}</tr>{"".join(rows)}</table></div>'


def _row(cell: Measured, first: bool) -> list[str]:
    speedup, texts = cell.speedup, cell.texts
    kind = {True: "faster", False: "slower-than-none", None: "undecided"}[speedup.above_one]
    return [
        str(cell.k) if first else "",
        str(cell.cell.concurrency),
        f'<b class="{kind}">{speedup.value:.2f} ×</b>',
        "" if speedup.low is None else f"{speedup.low:.2f} to {speedup.high:.2f}",
        " ".join(f"{100 * share:.0f}" for share in cell.acceptance_by_position),
        "" if cell.acceptance_length is None else f"{cell.acceptance_length:.2f}",
        milliseconds(cell.mean_tpot),
        milliseconds(cell.baseline_mean_tpot),
        *(milliseconds(values.get(0.99)) for values in (cell.tpot, cell.baseline_tpot)),
        *(milliseconds(values.get(share)) for share in (0.5, 0.99) for values in (cell.itl, cell.baseline_itl)),
        f"{cell.tokens_per_second:,.0f}",
        f"{cell.baseline_tokens_per_second:,.0f}",
        f"{texts.equal} of {texts.compared}" if texts else "",
        "" if texts is None or texts.parted_after is None else f"{texts.parted_after:g} characters",
        _failed(cell),
    ]


def _failed(cell: Measured) -> str:
    if not cell.errors:
        return "0"
    return f"{cell.errors}, {cell.timeouts} timeouts" if cell.timeouts else str(cell.errors)


def _method(result: Result) -> str:
    design = result.design
    turns = "one after the other" if design.in_turn else "taking turns in every cell"
    return (
        f"The same prompts on the servers with and without speculation, {turns}; {design.repetitions} repetitions, "
        f"each with other prompts; at least {design.requests} answers of {design.max_tokens} tokens a turn, after a "
        "warm-up that is left out. Speedup is time per output token (from the first token to the last) without "
        "speculation ÷ with it. "
        "Its value is the geometric mean over repetitions, the interval Student's t on the logarithms of the "
        "repetitions' ratios: it holds the spread of prompts and of the machine. All together: mean time per token, "
        "domains by their shares. Recommended at each number of requests is the K whose interval ends highest at its "
        "lower end, and no drafting where that is below 1, unless more requests surely gain from it."
    )
