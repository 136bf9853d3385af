"""Where a check looks: one expression, with the rule and the file around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specwatch.lint.book import Book
from specwatch.lint.documents import Scalar
from specwatch.lint.findings import Code, Finding, Fix
from specwatch.lint.sources import Query, Rule, Source


@dataclass(frozen=True)
class Site:
    """One expression that is checked."""

    source: Source
    query: Query
    book: Book
    rule: Rule | None = None

    @property
    def tree(self) -> Any:
        """The expression's tree, None where it is no PromQL."""
        return self.query.expression.tree

    @property
    def alert(self) -> Rule | None:
        """The alerting rule that the expression is of."""
        return self.rule if self.rule and self.rule.is_alert else None

    def concerns_vllm(self) -> bool:
        """Whether the expression reads vLLM's metrics."""
        return self.book.concerns_vllm(self.query)

    def near_vllm(self) -> bool:
        """Whether the expression or another of its group does."""
        group = self.rule.group if self.rule else ""
        return (self.source.file, group) in self.book.groups_about_vllm or self.concerns_vllm()

    def finding(self, code: Code, message: str, instead: str, name: str = "", rename: str = "") -> Finding:
        """A finding on the expression, at the first place of ``name`` where it is given, renaming every one."""
        spans = [span for number in range(self._count(name)) if (span := self._span(name, number))]
        start = spans[0][0] if spans else self.query.scalar.start
        fixes = tuple(Fix(*span, name, rename) for span in spans) if rename and not self.source.within else ()
        return _finding(self.source, code, start, self.query.path, message, instead, fixes)

    def finding_in(self, code: Code, message: str, instead: str, scalar: Scalar, word: str) -> Finding:
        """A finding on a word of another of the rule's texts."""
        return finding_in(self.source, code, message, instead, self.query.path, scalar, word)

    def _count(self, name: str) -> int:
        return sum(found.text == name for found in self.query.expression.names) if name else 0

    def _span(self, name: str, number: int) -> tuple[int, int] | None:
        found = self.query.expression.name(name, number)
        if found is None:
            return None
        offset = self.query.offset
        return self.source.text.span(self.query.scalar, offset + found.start, offset + found.end)


def finding_in(source: Source, code: Code, message: str, instead: str, path: str, scalar: Scalar, word: str) -> Finding:
    """A finding on a word of any value."""
    at = scalar.value.find(word)
    span = source.text.span(scalar, at, at + len(word)) if at >= 0 else None
    return _finding(source, code, span[0] if span else scalar.start, path, message, instead, ())


def _finding(
    source: Source, code: Code, offset: int, path: str, message: str, instead: str, fixes: tuple[Fix, ...]
) -> Finding:
    line, column = source.place(offset)
    where = " / ".join(filter(None, (source.within, path)))
    return Finding(code, source.file, line, column, where, message, instead, fixes)
