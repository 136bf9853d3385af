"""What docs/signals.md lists, made from the catalogue: the counters and every signal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specwatch.generate.live_promql import Live
from specwatch.generate.promql import Level, number
from specwatch.generate.recording_rules import CORE, recorded_signals, recording
from specwatch.generate.rules_config import RulesConfig
from specwatch.signals.catalogue import MIN_DRAFTS, Signal, signals
from specwatch.signals.formula import Computed, PerPosition, Ratio, Terms
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, Counter

SYMBOLS: Mapping[Counter, tuple[str, str]] = {
    Counter.DRAFTS: ("D", "drafts: steps of one request that verified a draft"),
    Counter.DRAFT_TOKENS: ("N", "draft tokens: proposed and verified"),
    Counter.ACCEPTED_TOKENS: ("A", "accepted draft tokens; the target's own token of each step is never counted"),
    Counter.GENERATION_TOKENS: ("G", "generated tokens"),
    Counter.FIRST_TOKENS: ("F", "first tokens: they come from prefills, not from decode steps"),
    Counter.DECODE_STEPS: ("S", "decode steps of one request, drafted or not"),
    Counter.DECODE_STEP_SECONDS: ("T", "seconds of these steps, over all requests"),
    Counter.FINISHED_REQUESTS: ("R", "requests that ended"),
    Counter.FINISHED_TOKENS: ("Gᵣ", "tokens of requests that ended, counted when they end"),
    Counter.FINISHED_DECODE_SECONDS: ("Tᵣ", "seconds from first to last token of requests that ended"),
    Counter.RUNNING_SECONDS: ("B", "requests in the batch, integrated over time"),
    Counter.WAITING_SECONDS: ("Q", "requests in the queue, integrated over time"),
}
"""How formulas on the page call a counter, and what it counts."""

POSITION_SYMBOL = "Pᵢ"


def filled(page: str) -> str:
    """The page with its made parts as the catalogue has them; its prose stays as it is."""
    for name, part in (("counters", _counters()), ("signals", _signals())):
        begin, end = f"<!-- made: {name} -->\n\n", "\n<!-- end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = before + begin + "".join(part) + end + after
    return page


def _signals() -> Iterator[str]:
    config = RulesConfig()
    recorded = {signal.name: recording(config).signal(signal) for signal in recorded_signals(config)}
    live = Live('job="vllm"', "5m")
    yield from _overview()
    for signal in signals():
        yield from _section(signal, recorded.get(signal.name), live)


def _counters() -> Iterator[str]:
    yield "| symbol | series | what it counts |\n|---|---|---|\n"
    for counter, (symbol, words) in SYMBOLS.items():
        names = SERIES.get(counter) or (GAUGES[counter],)
        yield f"| {symbol} | {' or '.join(f'`{name}`' for name in names)} | {words} |\n"
    yield f"| {POSITION_SYMBOL} | `{POSITION_SERIES}` | accepted draft tokens at position i, from 0 |\n"


def _overview() -> Iterator[str]:
    yield "| signal | unit | formula |\n|---|---|---|\n"
    for signal in signals():
        yield f"| [{signal.title}](#{signal.name}) | {signal.unit.value} | {formula_words(signal)} |\n"


def _section(signal: Signal, recorded: str | None, live: Live) -> Iterator[str]:
    yield f"\n### {signal.name}\n\n{signal.help}\n\n"
    yield f"* Formula: {formula_words(signal)}\n"
    needs = _needs(signal)
    if needs:
        yield f"* Needs: {needs}\n"
    yield f"* Sidecar: `{signal.metric}`\n"
    if recorded is None:
        yield "* Prometheus: the sidecar's metric alone; it takes more than sums of counters\n"
        return
    levels = ", ".join(level.word for level in Level if level is not Level.ENGINE or signal.name in CORE)
    yield f"* Recorded as `{recorded}`, by {levels}\n"
    yield f"* PromQL, by server:\n\n```promql\n{live.signal(signal)}\n```\n"


def formula_words(signal: Signal) -> str:
    """A signal's formula in the page's symbols."""
    formula = signal.formula
    if isinstance(formula, Computed):
        return formula.words
    if isinstance(formula, PerPosition):
        return f"{POSITION_SYMBOL} ÷ Pᵢ₋₁, the first ÷ D" if formula.conditional else f"{POSITION_SYMBOL} ÷ D"
    return _ratio_words(formula)


def _ratio_words(formula: Ratio) -> str:
    above = _terms(formula.numerator)
    below = _terms(formula.denominator) if formula.denominator else "seconds"
    offset = f"{number(formula.offset)} + " if formula.offset else ""
    return f"{offset}{above} ÷ {below}"


def _terms(terms: Terms) -> str:
    text = ""
    for counter, weight in terms.items():
        sign = " - " if weight < 0 else " + "
        factor = "" if abs(weight) == 1 else f"{number(abs(weight))} · "
        text += f"{sign}{factor}{SYMBOLS[counter][0]}"
    text = text.removeprefix(" + ")
    return f"({text})" if len(terms) > 1 else text


def _needs(signal: Signal) -> str:
    formula = signal.formula
    if isinstance(formula, PerPosition):
        return f"at least {number(formula.at_least)} drafts"
    if isinstance(formula, Computed):
        return f"at least {MIN_DRAFTS} drafts"
    wanted = [
        f"at least {number(least)} {counter.value.replace('_', ' ')}" if least else f"{SYMBOLS[counter][0]} exported"
        for counter, least in formula.at_least.items()
    ]
    return ", ".join(wanted)
