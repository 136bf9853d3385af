"""What is wrong with a metric's name on a release."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from promql_parser import MatchOp

from specwatch.lint import findings, patterns, trees
from specwatch.lint.book import Book
from specwatch.lint.expressions import VARIABLE
from specwatch.lint.findings import Code, Finding
from specwatch.lint.site import Site, finding_in
from specwatch.lint.sources import Source
from specwatch.lint.trees import Use
from specwatch.vllm.features import NEWEST
from specwatch.vllm.metric_history import (
    EITHER_ENGINE,
    PREFIX,
    ROUTER_SAMPLES,
    Engine,
    Family,
    Type,
    by_name,
    by_sample,
    renaming,
)
from specwatch.vllm.releases import coming, ended

MANGLED = "vllm_"
SPARED_BESIDE_ANOTHER = frozenset({findings.GONE, findings.COMING, findings.ONE_ENGINE})
"""What is no mistake in ``new or old``: one expression for several releases."""
NATIVE = frozenset({"histogram_quantile", "histogram_count", "histogram_sum", "histogram_avg", "histogram_fraction"})
"""Functions that take a histogram under its own name, where Prometheus made a native one of it."""

_MENTION = re.compile(r"vllm(?::|%3[Aa])[a-zA-Z0-9_]+")


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a name."""

    code: Code
    message: str
    instead: str
    rename: str = ""
    """The name that means the same, where there is one."""


def judge(name: str, book: Book) -> Verdict | None:
    """What is wrong with a name on the book's release; None for a good one, and for one that is not vLLM's."""
    if name in book.recordings or VARIABLE in name or name in ROUTER_SAMPLES:
        return None
    if name in by_sample():
        return _judge_sample(name, by_sample()[name], book)
    if name in by_name():
        return _judge_family(name, by_name()[name][0], book)
    if name.startswith(MANGLED) and _unmangled(name):
        return Verdict(findings.MANGLED, f"vLLM has no {name}: its metrics begin with {PREFIX}", _unmangled(name))
    return _unknown(name, book) if name.startswith(PREFIX) else None


def _judge_sample(name: str, families: tuple[Family, ...], book: Book) -> Verdict | None:
    release, facts = book.release, [family.exists for family in families]
    holding = [family for family in families if family.exists.holds(release)]
    if holding:
        return _judge_engine(name, {family.engine for family in holding}, book)
    rename = renaming(name, release) or ""
    past = ended(facts, families[0].name, release)
    if past:
        last = next(family for family in families if family.exists == past)
        message = f"{name} is gone since vLLM {past.until} ({past.reason}); {release} does not have it"
        instead = "; ".join(filter(None, (rename, last.instead))) or "delete it: vLLM has nothing in its place"
        return Verdict(findings.GONE, message, instead, rename)
    since = next(fact.since for fact in [coming(facts, families[0].name, release)] if fact)
    message = f"{name} comes with vLLM {since}; {release} does not have it yet"
    return Verdict(findings.COMING, message, rename or f"upgrade to {since}, or leave it out", rename)


def _judge_engine(name: str, engines: set[Engine], book: Book) -> Verdict | None:
    """What only V0 has is missing where V1 runs by default; what only V1 has is what people want there."""
    if engines != {Engine.V0} or not EITHER_ENGINE.holds(book.release):
        return None
    message = f"on {book.release} only the V0 engine has {name}; servers on V1, the default, do not"
    return Verdict(findings.ONE_ENGINE, message, "see in the servers' logs which engine they run")


def _judge_family(name: str, family: Family, book: Book) -> Verdict | None:
    """A name without the suffix that its samples have; never a gauge's, which needs none."""
    sample = family.exposed[-1]
    verdict = judge(sample, book)
    if verdict and verdict.code is not findings.ONE_ENGINE:
        rename = verdict.rename if family.type is Type.COUNTER else ""
        return replace(verdict, rename=rename, instead=verdict.instead)
    if family.type is Type.COUNTER:
        return Verdict(findings.NO_TOTAL, f"{name} has no series: vLLM exposes {sample}", sample, sample)
    choice = f"{name}_bucket in histogram_quantile(), or {name}_sum and {name}_count"
    return Verdict(findings.NO_SUFFIX, f"{name} is a histogram and has no series under its own name", choice)


def _unmangled(name: str) -> str:
    colon = PREFIX + name.removeprefix(MANGLED)
    if colon in by_name() and colon not in by_sample():
        return by_name()[colon][0].exposed[-1]
    return colon if colon in by_sample() else ""


def _unknown(name: str, book: Book) -> Verdict:
    near = difflib.get_close_matches(name[:200], sorted(book.current), 1, 0.8)
    instead = near[0] if near else "a metric that the server's /metrics page shows"
    return Verdict(findings.UNKNOWN, f"no release of vLLM up to {NEWEST} has {name}", instead)


def in_expressions(site: Site) -> Iterator[Finding]:
    """Every name of an expression, each reported once."""
    if site.tree is None:
        yield from _unparsed(site)
        return
    reported: set[str] = set()
    for use in trees.uses(site.tree):
        verdict = judge(use.name, site.book)
        if verdict and use.name not in reported and not _spared(use, verdict, site):
            reported.add(use.name)
            yield site.finding(verdict.code, verdict.message, verdict.instead, use.name, verdict.rename)


def _unparsed(site: Site) -> Iterator[Finding]:
    names = {name.text for name in site.query.expression.names if name.text.startswith(PREFIX)}
    for name in sorted(names):
        verdict = judge(name, site.book)
        if verdict:
            yield site.finding(verdict.code, verdict.message, verdict.instead, name, verdict.rename)
    if names:
        message = f"this cannot be read as PromQL: {site.query.expression.problem}"
        yield site.finding(findings.NOT_PARSED, message, "see what promtool or the dashboard says to it")


def _spared(use: Use, verdict: Verdict, site: Site) -> bool:
    if verdict.code is findings.MANGLED:
        return use.asks_presence()
    if verdict.code is findings.NO_SUFFIX:
        return any(function in NATIVE for function in use.inside) and not trees.keeps(site.tree, "le")
    if verdict.code not in SPARED_BESIDE_ANOTHER:
        return False
    only_alternative = site.rule is not None and site.rule.name in site.book.alternatives
    return only_alternative or any(site.book.exists(other) for other in use.beside)


def in_patterns(site: Site) -> Iterator[Finding]:
    """Patterns of names: whether they take the times of creation in, and whether anything of the release is left."""
    for use in trees.uses(site.tree):
        texts = [matcher.value for matcher in use.patterns() if matcher.op == MatchOp.Re and "vllm" in matcher.value]
        taken = _taken(use)
        if not texts or not taken or any(site.book.exists(other) for other in use.beside):
            continue
        current = taken & site.book.current
        created = {name for name in current if name.endswith("_created")}
        wanted = not use.asks_presence() and not site.query.only_labels
        if not current:
            message = f"nothing that vLLM {site.book.release} exposes matches {texts[0]}, only what it once did or will"
            instead = "the names that the server's /metrics page shows"
            yield site.finding_in(findings.GONE, message, instead, site.query.scalar, texts[0])
        elif created and created != current and wanted:
            message = f"{texts[0]} also matches {min(created)}, the time at which the series began"
            instead = f'add __name__!~".*_created", or {_narrowed(texts[0])}'
            yield site.finding_in(findings.CREATED, message, instead, site.query.scalar, texts[0])


def _taken(use: Use) -> set[str]:
    """Samples of any release that the selector's matchers of the name take; empty where one cannot be told."""
    names = set(by_sample())
    for matcher in use.patterns():
        hit = {matcher.value} if matcher.op == MatchOp.NotEqual else patterns.matching(matcher.value, names)
        if hit is None:
            return set()
        names = names & hit if matcher.op == MatchOp.Re else names - hit
    return names


def _narrowed(pattern: str) -> str:
    return (
        f'__name__=~"{pattern.removesuffix("$")}_total"'
        if pattern.endswith((".*", ".+", ".*$"))
        else "name the metrics"
    )


def in_alertmanager(source: Source, book: Book) -> Iterator[Finding]:
    """Names in an Alertmanager configuration: in its texts, and in links to queries."""
    for scalar in source.mentions:
        for mention in dict.fromkeys(_MENTION.findall(scalar.value)):
            verdict = judge(PREFIX + re.split(":|%3[Aa]", mention)[1], book)
            if verdict:
                where = "Alertmanager's configuration"
                yield finding_in(source, verdict.code, verdict.message, verdict.instead, where, scalar, mention)
