"""Expressions that are computed well and mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from promql_parser import Call, Matcher, MatchOp, MatrixSelector, SubqueryExpr, VectorSelector

from specwatch.lint import findings, trees
from specwatch.lint.book import Book
from specwatch.lint.findings import Finding
from specwatch.lint.site import Site
from specwatch.vllm.metric_history import CORRUPT, Engine, Type, by_name, by_sample, renaming


def corrupt_counters(site: Site) -> Iterator[Finding]:
    """Rates of the counters that V0 spoils, where the release can run V0."""
    release = site.book.release
    holding = {name: [f.engine for f in by_name()[name] if f.exists.holds(release)] for name in CORRUPT}
    spoilt = {f"{name}_total": engines for name, engines in holding.items() if Engine.V0 in engines}
    for use in trees.uses(site.tree):
        if use.name in spoilt and any(f in trees.RATES for f in use.inside) and not _only_v1(use.matchers):
            message = f"vLLM {release} may run the V0 engine, which adds its own total to {use.name} again and again"
            yield site.finding(findings.CORRUPT, message, _instead_of_corrupt(use.name, spoilt[use.name]), use.name)
            return


def _only_v1(matchers: tuple[Matcher, ...]) -> bool:
    """Whether series without an engine's label, which are V0's, are left out."""
    for matcher in (matcher for matcher in matchers if matcher.name == "engine"):
        if matcher.op == MatchOp.NotEqual:
            return matcher.value == ""
        if matcher.op in (MatchOp.Equal, MatchOp.Re) and matcher.value not in ("", ".*"):
            return True
    return False


def _instead_of_corrupt(name: str, engines: list[Engine]) -> str:
    v0 = "(vllm:spec_decode_efficiency * (K + 1) - 1) / K is V0's acceptance rate since start, K as configured"
    return f'{name}{{engine!=""}} for V1\'s; {v0}' if Engine.V1 in engines else v0


def rates_of_gauges(site: Site) -> Iterator[Finding]:
    """Functions for counters around gauges."""
    for node in trees.nodes(site.tree):
        if isinstance(node, Call) and node.func.name in trees.RATES and node.args:
            name = _ranged_name(node.args[0])
            families = by_sample().get(name, ())
            created = any(name == family.created for family in families)
            if families and name not in site.book.recordings and (created or families[0].type is Type.GAUGE):
                what = "a time" if created else "a gauge"
                instead = f"avg_over_time({name}[5m]) for its mean, delta({name}[5m]) for its change"
                message = f"{node.func.name}() of {name}, which is {what}"
                yield site.finding(findings.RATE_OF_GAUGE, message, "leave it out" if created else instead, name)


def _ranged_name(tree: Any) -> str:
    tree = trees.bare(tree)
    if isinstance(tree, MatrixSelector):
        return trees.selected_name(tree.vector_selector)
    inner = trees.bare(tree.expr) if isinstance(tree, SubqueryExpr) else None
    return trees.selected_name(inner) if isinstance(inner, VectorSelector) else ""


def means_of_ratios(site: Site) -> Iterator[Finding]:
    """Means over servers or over time of what is a quotient already."""
    if not site.concerns_vllm():
        return
    for node in trees.nodes(site.tree):
        function = trees.function_of(node)
        if function in ("avg", "avg_over_time") and any(
            _gives_ratio(child, site.book) for child in trees.children(node)
        ):
            over = "all servers" if function == "avg" else "the whole time"
            instead = "sum() the numerators and the denominators apart, over the whole window, and divide the sums"
            yield site.finding(findings.MEAN_OF_RATIOS, f"{function}() of ratios is not the ratio over {over}", instead)
            return


def _gives_ratio(tree: Any, book: Book) -> bool:
    tree = trees.bare(tree)
    if isinstance(tree, MatrixSelector):
        tree = tree.vector_selector
    return book.is_ratio(tree.expr if isinstance(tree, SubqueryExpr) else tree)


def lifetime_ratios(site: Site) -> Iterator[Finding]:
    """Quotients of counters as they are."""
    for node in trees.nodes(site.tree):
        if trees.operator_of(node) != "/":
            continue
        sides = [_since_start(side, site.book) for side in (node.lhs, node.rhs)]
        if all(sides) and not any(trees.operator_of(n) == "-" for n in trees.nodes(node)):
            upper, lower = (min(side) for side in sides)
            names = (renaming(name, site.book.release) or name for name in (upper, lower))
            instead = "sum(rate({}[5m])) / sum(rate({}[5m])), by the labels that are meant".format(*names)
            message = f"{upper} ÷ {lower} without rate() is the mean since the servers started"
            yield site.finding(findings.LIFETIME, message, instead, upper)
            return


def _since_start(tree: Any, book: Book) -> set[str]:
    """Counters that a tree takes as they are, by itself or through what it reads that is recorded."""
    pending, seen = [tree], set[str]()
    while pending:
        uses = [use for use in trees.uses(pending.pop()) if not (use.in_a_window() or use.asks_presence())]
        new = {use.name for use in uses} - seen
        seen |= new
        pending.extend(made for name in new for made in book.made_of(name))
    return {name for name in seen if _is_counter(name)}


def _is_counter(name: str) -> bool:
    families = by_sample().get(name, ())
    return any(name in family.exposed and family.type is not Type.GAUGE for family in families)
