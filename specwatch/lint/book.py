"""What all linted files say together: what they record, what they alert on, and what a name stands for in the end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from promql_parser import BinaryExpr, VectorSelector

from specwatch.lint import trees
from specwatch.lint.sources import Query, Rule, Source
from specwatch.lint.trees import ANY_LABEL, Labels
from specwatch.vllm.metric_history import RATIOS, by_sample, existing
from specwatch.vllm.releases import Release

DEEPEST = 40
"""Recording rules that read one another: what lies further is not followed."""

_OURS = re.compile(r"vllm|spec_decode|specwatch", re.IGNORECASE)
_RATIO_NAME = re.compile(r"(?:^|[:_])(?:ratio|hit_rate|acceptance_rate|acceptance_length)(?:[:_]|$)")
_WITH_K = frozenset({"vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_accepted_tokens_total"})
"""Accepted tokens ÷ drafts grows with K, as the acceptance rate does not."""
_SPEEDUP = re.compile("speed_?up", re.IGNORECASE)


@dataclass(frozen=True)
class Book:
    """The sources of one run, judged for one release."""

    sources: tuple[Source, ...]
    release: Release
    _raw: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)
    _labels: dict[str, Labels] = field(default_factory=dict, compare=False)
    _ratios: dict[str, bool] = field(default_factory=dict, compare=False)

    @cached_property
    def recordings(self) -> dict[str, list[Rule]]:
        """Recording rules by the name that they record."""
        found: dict[str, list[Rule]] = {}
        for rule in self._rules():
            if not rule.is_alert:
                found.setdefault(rule.name, []).append(rule)
        return found

    @cached_property
    def alerts(self) -> tuple[Rule, ...]:
        """All alerting rules."""
        return tuple(rule for rule in self._rules() if rule.is_alert)

    @cached_property
    def current(self) -> frozenset[str]:
        """Samples that a server of the release may show."""
        families = list(existing(self.release))
        return frozenset(name for family in families for name in (*family.exposed, family.created) if name)

    def raw(self, tree: Any, depth: int = 0) -> frozenset[str]:
        """Names of the metrics that a tree reads, those that are recorded replaced by what they are made of."""
        found: set[str] = set()
        for use in trees.uses(tree):
            found |= self._raw_of(use.name, depth) if use.name in self.recordings else {use.name}
        return frozenset(found - {""})

    def _raw_of(self, name: str, depth: int) -> frozenset[str]:
        if name not in self._raw:
            if depth > DEEPEST:
                return frozenset({name})
            self._raw[name] = frozenset({name})  # what a rule that reads itself finds
            made = [self.raw(tree, depth + 1) for tree in self.made_of(name)]
            self._raw[name] = frozenset({name}).union(*made)
        return self._raw[name]

    def labels(self, tree: Any) -> Labels:
        """Labels that a tree's result may have; any, where rules read one another too deeply to follow."""
        try:
            return trees.labels(tree, self._labels_of)
        except RecursionError:
            return ANY_LABEL

    def _labels_of(self, name: str) -> Labels:
        rules = self.recordings.get(name)
        if not rules:
            return ANY_LABEL
        if name not in self._labels:
            self._labels[name] = ANY_LABEL  # while it is being found out: for rules that read themselves
            made = [self._recorded_labels(rule) for rule in rules]
            result = made[0]
            for other in made[1:]:
                result = result | other
            self._labels[name] = result
        return self._labels[name]

    def _recorded_labels(self, rule: Rule) -> Labels:
        tree = rule.query.expression.tree
        found = ANY_LABEL if tree is None else self.labels(tree)
        return found.add(name for name, _ in rule.labels)

    def alert_labels(self, rule: Rule) -> Labels:
        """Labels that a firing alert may have."""
        return self._recorded_labels(rule).add(["alertname"])

    def concerns_vllm(self, query: Query) -> bool:
        """Whether an expression reads vLLM's metrics, or says vllm in a label."""
        tree = query.expression.tree
        if tree is None:
            return bool(_OURS.search(query.expression.text))
        values = (matcher.value for use in trees.uses(tree) for matcher in use.matchers)
        return any(_OURS.search(text) for text in (*self.raw(tree), *values))

    @cached_property
    def groups_about_vllm(self) -> frozenset[tuple[str, str]]:
        """File and name of the groups with a rule that concerns vLLM."""
        rules = ((source.file, rule) for source in self.sources for rule in source.rules)
        return frozenset((file, rule.group) for file, rule in rules if self.concerns_vllm(rule.query))

    def exists(self, tree: Any) -> bool:
        """Whether a tree reads anything that a server of the release may show."""
        return not self.raw(tree).isdisjoint(self.current)

    @cached_property
    def alternatives(self) -> frozenset[str]:
        """Recorded names that are read only where something else has no value: ``new or old``."""
        spared: set[str] = set()
        needed: set[str] = set()
        for query in self._queries():
            for use in trees.uses(query.expression.tree) if query.expression.tree else ():
                if use.name in self.recordings:
                    (spared if any(self.exists(other) for other in use.beside) else needed).add(use.name)
        return frozenset(spared - needed)

    def is_ratio(self, tree: Any, depth: int = 0) -> bool:
        """Whether a tree's value is a quotient of two series, or a recorded one."""
        tree = trees.core(tree)
        if isinstance(tree, BinaryExpr):
            sides = (tree.lhs, tree.rhs)
            if str(tree.op) == "/":
                return all(any(trees.uses(side)) for side in sides)
            return str(tree.op) == "or" and any(self.is_ratio(side, depth) for side in sides)
        if isinstance(tree, VectorSelector):
            return self._is_ratio_name(trees.selected_name(tree), depth)
        return trees.function_of(tree) in _SHAPING and any(self.is_ratio(c, depth) for c in trees.children(tree))

    def _is_ratio_name(self, name: str, depth: int) -> bool:
        if name in by_sample():
            return name in RATIOS and name in self.current
        if name not in self.recordings or depth > DEEPEST:
            return _RATIO_NAME.search(name) is not None
        if name not in self._ratios:
            self._ratios[name] = False  # while it is being found out: for rules that read themselves
            self._ratios[name] = any(self.is_ratio(made, depth + 1) for made in self.made_of(name))
        return self._ratios[name]

    def reads(self, tree: Any, operation: str) -> bool:
        """Whether an operator or function has a part in a tree, or in what it reads that is recorded."""
        pending, seen = [tree], set[str]()
        while pending:
            current = pending.pop()
            if any(operation in (trees.operator_of(n), trees.function_of(n)) for n in trees.nodes(current)):
                return True
            new = {use.name for use in trees.uses(current)} - seen
            seen |= new
            pending.extend(made for name in new for made in self.made_of(name))
        return False

    def knows_k(self) -> bool:
        """Whether an alert judges by what depends on K: by the tokens of a draft, or by the speedup."""
        for rule in self.alerts:
            tree = rule.query.expression.tree
            names = self.raw(tree) if tree is not None else frozenset()
            if any(_SPEEDUP.search(name) for name in names) or (names >= _WITH_K and _divides(tree, self)):
                return True
        return False

    @cached_property
    def asks_for_absence(self) -> bool:
        """Whether any rule tells when a target's series are not there."""
        return any(self._asks_for_absence(rule.query.expression.tree) for rule in self._rules())

    def _asks_for_absence(self, tree: Any) -> bool:
        return tree is not None and any(
            function in ("absent", "absent_over_time") and ("up" in (names := self.raw(node)) or _any_vllm(names))
            for node in trees.nodes(tree)
            for function in [trees.function_of(node)]
        )

    def made_of(self, name: str) -> Iterator[Any]:
        """The trees of the rules that record a name."""
        found = (rule.query.expression.tree for rule in self.recordings.get(name, ()))
        return (tree for tree in found if tree is not None)

    def _rules(self) -> Iterator[Rule]:
        return (rule for source in self.sources for rule in source.rules)

    def _queries(self) -> Iterator[Query]:
        for source in self.sources:
            yield from source.queries
            yield from (rule.query for rule in source.rules)


_SHAPING = frozenset({"clamp", "clamp_max", "clamp_min", "round", "label_replace", "label_join", "last_over_time"})
"""Functions whose result is as much a ratio as what they are given."""


def _any_vllm(names: Iterable[str]) -> bool:
    return any(name.startswith("vllm:") for name in names)


def _divides(tree: Any, book: Book) -> bool:
    """Whether a comparison's value is a quotient."""
    return any(
        trees.operator_of(node) in trees.COMPARISONS and (book.is_ratio(node.lhs) or book.is_ratio(node.rhs))
        for node in trees.nodes(tree)
    )
