"""Alerts that cannot tell what they are there for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from promql_parser import AggregateExpr, VectorSelector

from specwatch.lint import findings, patterns, trees
from specwatch.lint.book import Book
from specwatch.lint.findings import Finding
from specwatch.lint.links import problem_of
from specwatch.lint.site import Site, finding_in
from specwatch.lint.sources import Rule, Source
from specwatch.vllm.metric_history import by_sample
from specwatch.vllm.metrics import SERIES, V0_ACCEPTANCE, Counter

RUNBOOKS = ("runbook_url", "runbook", "runbook_link")
"""Annotations that hold a runbook's address."""

_LABEL = re.compile(r"\$labels\.(\w+)|index\s+\$labels\s+\"(\w+)\"")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_POOLING = ("sum", "avg", "min", "max")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ACCEPTED, _DRAFTED, _DRAFTS = (
    SERIES[counter][0] for counter in (Counter.ACCEPTED_TOKENS, Counter.DRAFT_TOKENS, Counter.DRAFTS)
)


def lost_labels(site: Site) -> Iterator[Finding]:
    """Labels in an alert's texts or a panel's legend that the result does not have."""
    if site.concerns_vllm():
        has = site.book.labels(site.tree)
        for scalar, pattern in _texts(site):
            named = dict.fromkeys(found[found.lastindex or 0] for found in pattern.finditer(scalar.value))
            for label in (label for label in named if not has.may_hold(label)):
                kept = ", ".join(sorted(has.names)) or "none"
                message = f"the expression's result has no label {label} (it has: {kept})"
                instead = f"keep {label} in the expression's by (…), or leave it out of the text"
                yield site.finding_in(findings.LOST_LABEL, message, instead, scalar, label)


def _texts(site: Site) -> Iterator[tuple[Any, re.Pattern[str]]]:
    if site.alert:
        yield from ((scalar, _LABEL) for _, scalar in (*site.alert.annotations, *site.alert.labels))
    if site.query.legend:
        yield site.query.legend, _LEGEND


def blind_thresholds(site: Site) -> Iterator[Finding]:
    """Acceptance rates against a number, where no alert beside judges by what K changes."""
    if not site.alert or site.book.knows_k():
        return
    for left, operator, limit in _comparisons(site.tree):
        if 0 < limit < 1 and _is_acceptance(left, site.book):
            message = f"acceptance {operator} {limit:g} means something else for every K, and nothing of the speed"
            instead = "add an alert on the estimated speedup, (1 + accepted ÷ drafts) ÷ (1 + K · draft cost) < 1, as "
            yield site.finding(findings.BLIND_TO_K, message, instead + "`specwatch gen-alerts` writes it")
            return


def _is_acceptance(tree: Any, book: Book) -> bool:
    """Whether a value is accepted ÷ draft tokens, of one server or over many."""
    tree = _within_aggregations(tree)
    names = book.raw(tree)
    if V0_ACCEPTANCE in names:
        return True
    known = names >= {_ACCEPTED, _DRAFTED} and _DRAFTS not in names
    return book.is_ratio(tree) and (known or any("acceptance_rate" in name for name in names))


def _within_aggregations(tree: Any) -> Any:
    """What is added up, averaged or compared over servers."""
    tree = trees.core(tree)
    while isinstance(tree, AggregateExpr) and str(tree.op) in _POOLING:
        tree = trees.core(tree.expr)
    return tree


def _comparisons(tree: Any) -> Iterator[tuple[Any, str, float]]:
    """What a condition compares with a number: the value, the operator and the number."""
    tree = trees.bare(tree)
    operator = trees.operator_of(tree)
    if operator in trees.COMPARISONS:
        mirrored = _MIRRORED.get(operator, operator)
        for side, other, sign in ((tree.lhs, tree.rhs, operator), (tree.rhs, tree.lhs, mirrored)):
            limit = trees.number(other)
            if limit is not None:
                yield side, sign, limit
    elif operator in trees.SET_OPERATORS:
        yield from _comparisons(tree.lhs)
        if operator != "unless":
            yield from _comparisons(tree.rhs)


def _makes_up(tree: Any) -> bool:
    """Whether a condition says itself what holds where there is nothing."""
    return any(trees.function_of(node) in ("absent", "absent_over_time", "vector") for node in trees.nodes(tree))


def percentages(site: Site) -> Iterator[Finding]:
    """Values from 0 to 1 against numbers above 1."""
    if not site.alert:
        return
    for left, operator, limit in _comparisons(site.tree):
        if 1 < limit <= 100 and _is_share(left, site.book):
            always = "always" if operator in ("<", "<=", "!=") else "never"
            message = f"the value lies between 0 and 1: {operator} {limit:g} is {always} true"
            yield site.finding(findings.PERCENT, message, f"{operator} {limit / 100:g}")


def _is_share(tree: Any, book: Book) -> bool:
    """Whether a value is a share of the cache or of draft tokens, and was not made a percentage."""
    if book.reads(tree, "*"):
        return False
    names = book.raw(tree) - book.recordings.keys()
    is_usage = all(name in by_sample() and name.endswith("_usage_perc") for name in names) and len(names) == 1
    return _is_acceptance(tree, book) or (is_usage and not book.reads(tree, "sum"))


def silent_counts(site: Site) -> Iterator[Finding]:
    """Counts below a limit: where nothing is left to count there is no count."""
    if not site.alert or not site.near_vllm() or _makes_up(site.tree):
        return
    for left, operator, limit in _comparisons(site.tree):
        counted = trees.bare(left)
        if isinstance(counted, AggregateExpr) and str(counted.op) == "count" and _below(operator, limit):
            what = "up" if "up" in site.book.raw(counted) else "count"
            message = f"count(…) {operator} {limit:g} has no value, and so does not fire, when nothing is left to count"
            yield site.finding(findings.SILENT_COUNT, message, _INSTEAD_OF_COUNT[what].format(f"{operator} {limit:g}"))


_INSTEAD_OF_COUNT = {
    "up": "sum(up{{…}}) {0}, where a server that is down still counts as 0; and beside it absent(up{{…}})",
    "count": "(count(…) or vector(0)) {0}",
}


def _below(operator: str, limit: float) -> bool:
    return operator in ("<", "<=") or (operator == "==" and limit == 0)


def missing_absence(site: Site) -> Iterator[Finding]:
    """Alerts on the value of up, where nothing asks whether there is any."""
    if not site.alert or not site.near_vllm() or site.book.asks_for_absence or _makes_up(site.tree):
        return
    for left, operator, limit in _comparisons(site.tree):
        if _is_up(left) and operator in ("==", "<", "<="):
            message = f"no alert here tells when there is no target: up {operator} {limit:g} needs one that is known"
            yield site.finding(findings.NO_ABSENT, message, 'add an alert on absent(up{job="…"})', "up")


def _is_up(tree: Any) -> bool:
    tree = trees.bare(tree)
    while isinstance(tree, AggregateExpr) and str(tree.op) in _POOLING:
        tree = trees.bare(tree.expr)
    return isinstance(tree, VectorSelector) and trees.selected_name(tree) == "up"


def dead_runbooks(site: Site) -> Iterator[Finding]:
    """Addresses of runbooks that can be looked up here and are not there."""
    if site.alert and site.near_vllm():
        for name, scalar in site.alert.annotations:
            problem = problem_of(scalar.value, site.source.file) if name in RUNBOOKS else ""
            if problem:
                instead = "the full address of a page that exists, with the anchor of a heading on it"
                yield site.finding_in(findings.DEAD_LINK, f"{name}: {problem}", instead, scalar, scalar.value)


def lost_labels_in_inhibitions(source: Source, book: Book) -> Iterator[Finding]:
    """Labels that inhibit_rules compare, and that none of the alerts on one side ever has."""
    for inhibition in source.inhibitions:
        sides = [_meant(matchers, book) for matchers in (inhibition.source, inhibition.target)]
        for label in inhibition.equal if all(sides) else ():
            for alerts in sides:
                if not any(book.alert_labels(alert).may_hold(label.value) for alert in alerts):
                    named = ", ".join(dict.fromkeys(alert.name for alert in alerts))
                    message = f"equal names {label.value}, a label that {named} never has"
                    instead = f"keep {label.value} in the expression's by (…), or leave it out of equal"
                    where = inhibition.path
                    yield finding_in(source, findings.LOST_LABEL, message, instead, where, label, label.value)


def _meant(matchers: tuple[tuple[str, str], ...], book: Book) -> list[Rule]:
    """The alerts that one side of an inhibition names; none where it does not ask for names."""
    names = {alert.name for alert in book.alerts} if matchers else set()
    for operator, value in matchers:
        names = names & ({value} if operator == "=" else patterns.matching(value, names) or set())
    return [alert for alert in book.alerts if alert.name in names]
