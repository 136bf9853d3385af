"""All checks, and running them over everything that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from specwatch.lint import alerts, arithmetic, layout, names
from specwatch.lint.book import Book
from specwatch.lint.findings import Finding
from specwatch.lint.site import Site
from specwatch.lint.sources import Source
from specwatch.vllm.releases import Release

OF_NAMES: tuple[Callable[[Site], Iterator[Finding]], ...] = (names.in_expressions,)
"""Checks of one expression, whether or not it could be parsed."""

OF_TREES: tuple[Callable[[Site], Iterator[Finding]], ...] = (
    names.in_patterns,
    arithmetic.corrupt_counters,
    arithmetic.rates_of_gauges,
    arithmetic.means_of_ratios,
    arithmetic.lifetime_ratios,
    alerts.lost_labels,
    alerts.blind_thresholds,
    alerts.percentages,
    alerts.silent_counts,
    alerts.missing_absence,
    alerts.dead_runbooks,
)
"""Checks of one expression that could be parsed."""

OF_SOURCES: tuple[Callable[[Source, Book], Iterator[Finding]], ...] = (
    names.in_alertmanager,
    alerts.lost_labels_in_inhibitions,
    layout.in_dashboards,
)
"""Checks of what is no expression."""


def lint(sources: Iterable[Source], release: Release) -> list[Finding]:
    """Everything that is found in the sources, judged for one release, in the order of files and lines."""
    book = Book(tuple(sources), release)
    found: list[Finding] = []
    for source in book.sources:
        for site in _sites(source, book):
            checks = (*OF_NAMES, *OF_TREES) if site.tree is not None else OF_NAMES
            found += [finding for check in checks for finding in check(site)]
        found += [finding for check in OF_SOURCES for finding in check(source, book)]
    order = {source.file: number for number, source in enumerate(book.sources)}
    return sorted(dict.fromkeys(found), key=lambda f: (order[f.file], f.line, f.column, f.code.id))


def _sites(source: Source, book: Book) -> Iterator[Site]:
    yield from (Site(source, rule.query, book, rule) for rule in source.rules)
    yield from (Site(source, query, book) for query in source.queries)
