"""Questions to a PromQL tree: which series it selects, in what surroundings, and which labels its result has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    LabelModifierType,
    Matcher,
    MatchOp,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    StringLiteral,
    SubqueryExpr,
    UnaryExpr,
    VectorMatchCardinality,
    VectorSelector,
)

from specwatch.lint.expressions import VARIABLE

RATES = frozenset({"rate", "irate", "increase"})
"""Functions that take a counter and mend its restarts."""
_WINDOWS = RATES | {"delta", "idelta", "deriv", "resets", "changes", "predict_linear"}
PRESENCE = frozenset({"absent", "absent_over_time", "count", "group", "present_over_time", "count_over_time"})
"""Functions that ask whether series are there, not what they hold."""
COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True)
class Use:
    """One selector of a tree, and what stands around it."""

    name: str
    """The metric's name, "" where it is given by a pattern or not at all."""
    matchers: tuple[Matcher, ...]
    inside: tuple[str, ...]
    """Names of the functions and aggregations that enclose it, the outermost first."""
    beside: tuple[Any, ...]
    """The other operands of the ``or``s that it stands in: what is taken where it has no value."""
    over_time: bool
    """Whether it selects a range of samples, not one."""

    def asks_presence(self) -> bool:
        """Whether only its being there matters."""
        return any(function in PRESENCE for function in self.inside)

    def in_a_window(self) -> bool:
        """Whether what it gives is of a stretch of time."""
        return self.over_time or any(f in _WINDOWS or f.endswith("_over_time") for f in self.inside)

    def patterns(self) -> list[Matcher]:
        """Matchers of the name other than equality."""
        return [m for m in self.matchers if m.name == "__name__" and m.op != MatchOp.Equal]


def uses(tree: Any, inside: tuple[str, ...] = (), beside: tuple[Any, ...] = ()) -> Iterator[Use]:
    """Every selector in the text's order."""
    over_time = isinstance(tree, MatrixSelector)
    selector = tree.vector_selector if over_time else tree
    if isinstance(selector, VectorSelector):
        yield Use(selected_name(selector), tuple(_matchers(selector)), inside, beside, over_time)
        return
    if isinstance(tree, BinaryExpr) and str(tree.op) == "or":
        yield from uses(tree.lhs, inside, (*beside, tree.rhs))
        yield from uses(tree.rhs, inside, (*beside, tree.lhs))
        return
    within = (*inside, function_of(tree)) if function_of(tree) else inside
    for child in children(tree):
        yield from uses(child, within, beside)


def selected_name(selector: VectorSelector) -> str:
    """The metric's name: before the braces, or as an equality in them."""
    if selector.name:
        return selector.name
    return next((m.value for m in _matchers(selector) if m.name == "__name__" and m.op == MatchOp.Equal), "")


def _matchers(selector: VectorSelector) -> Iterator[Matcher]:
    yield from selector.matchers.matchers
    for group in selector.matchers.or_matchers:
        yield from group


def function_of(tree: Any) -> str:
    """The name of a function or aggregation, "" for anything else."""
    if isinstance(tree, Call):
        return tree.func.name
    return str(tree.op) if isinstance(tree, AggregateExpr) else ""


def operator_of(tree: Any) -> str:
    """The operator of a binary expression, "" for anything else."""
    return str(tree.op) if isinstance(tree, BinaryExpr) else ""


def children(tree: Any) -> list[Any]:
    """What a node is made of, in the text's order."""
    if isinstance(tree, BinaryExpr):
        return [tree.lhs, tree.rhs]
    if isinstance(tree, AggregateExpr):
        return [tree.expr]
    if isinstance(tree, Call):
        return list(tree.args)
    return [tree.expr] if isinstance(tree, ParenExpr | UnaryExpr | SubqueryExpr) else []


def nodes(tree: Any) -> Iterator[Any]:
    """The tree and all below it."""
    yield tree
    for child in children(tree):
        yield from nodes(child)


def bare(tree: Any) -> Any:
    """The tree without the parentheses and signs around it."""
    while isinstance(tree, ParenExpr | UnaryExpr):
        tree = tree.expr
    return tree


def number(tree: Any) -> float | None:
    """The number that a tree is, None for any other."""
    tree = bare(tree)
    return tree.val if isinstance(tree, NumberLiteral) else None


def core(tree: Any) -> Any:
    """What gives a result its value: without filters, guards, and sums and products with numbers."""
    tree = bare(tree)
    while isinstance(tree, BinaryExpr):
        operator = str(tree.op)
        filtered = operator in ("and", "unless") or (operator in COMPARISONS and not _returns_bool(tree))
        if filtered or number(tree.rhs) is not None:
            tree = bare(tree.lhs)
        elif number(tree.lhs) is not None and operator in ("*", "+"):
            tree = bare(tree.rhs)
        else:
            break
    return tree


def _returns_bool(comparison: BinaryExpr) -> bool:
    return comparison.modifier is not None and comparison.modifier.return_bool


@dataclass(frozen=True)
class Labels:
    """Labels that a result may have: the ones named, or all but the ones named."""

    names: frozenset[str]
    all_but: bool = False

    def may_hold(self, label: str) -> bool:
        """Whether a result can have this label."""
        return (label in self.names) != self.all_but

    def keep(self, labels: Iterable[str]) -> Labels:
        """Only these, where they were there."""
        return Labels(frozenset(label for label in labels if self.may_hold(label)))

    def drop(self, labels: Iterable[str]) -> Labels:
        """Without these."""
        removed = frozenset(labels)
        return Labels(self.names | removed if self.all_but else self.names - removed, self.all_but)

    def add(self, labels: Iterable[str]) -> Labels:
        """With these too."""
        added = frozenset(labels)
        return Labels(self.names - added if self.all_but else self.names | added, self.all_but)

    def __and__(self, other: Labels) -> Labels:
        if self.all_but and other.all_but:
            return Labels(self.names | other.names, True)
        every, few = (self, other) if self.all_but else (other, self)
        return every.keep(few.names) if every.all_but else Labels(self.names & other.names)

    def __or__(self, other: Labels) -> Labels:
        if self.all_but and other.all_but:
            return Labels(self.names & other.names, True)
        if self.all_but or other.all_but:
            every, few = (self, other) if self.all_but else (other, self)
            return every.add(few.names)
        return Labels(self.names | other.names)


def keeps(tree: Any, label: str) -> bool:
    """Whether an aggregation names a label among those that it keeps."""
    modifiers = [node.modifier for node in nodes(tree) if isinstance(node, AggregateExpr) and node.modifier]
    return any(modifier.type == AggModifierType.By and label in modifier.labels for modifier in modifiers)


ANY_LABEL = Labels(frozenset(), all_but=True)
NO_LABEL = Labels(frozenset())
_KEEPING_AGGREGATIONS = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_WITHOUT_LABELS = frozenset({"vector", "scalar", "time", "pi"})


def labels(tree: Any, recorded: Callable[[str], Labels]) -> Labels:
    """Labels that the tree's result may have; ``recorded`` knows those of a selected metric."""
    if isinstance(tree, MatrixSelector):
        tree = tree.vector_selector
    if isinstance(tree, VectorSelector):
        return recorded(selected_name(tree))
    if isinstance(tree, AggregateExpr):
        return _aggregated(tree, labels(tree.expr, recorded))
    if isinstance(tree, BinaryExpr):
        return _combined(tree, labels(tree.lhs, recorded), labels(tree.rhs, recorded))
    if isinstance(tree, Call):
        return _called(tree, recorded)
    if isinstance(tree, ParenExpr | UnaryExpr | SubqueryExpr):
        return labels(tree.expr, recorded)
    return NO_LABEL


def _aggregated(tree: AggregateExpr, inner: Labels) -> Labels:
    operator = str(tree.op)
    if operator in _KEEPING_AGGREGATIONS:
        return inner
    named = tuple(tree.modifier.labels) if tree.modifier else ()
    if VARIABLE in named:
        return ANY_LABEL
    without = tree.modifier is not None and tree.modifier.type == AggModifierType.Without
    result = inner.drop(named) if without else inner.keep(named)
    return result.add(_texts(tree.param)) if operator == "count_values" else result


def _combined(tree: BinaryExpr, left: Labels, right: Labels) -> Labels:
    operator, modifier = str(tree.op), tree.modifier
    if operator in SET_OPERATORS:
        return left | right if operator == "or" else left
    for side, other in ((tree.lhs, right), (tree.rhs, left)):
        if number(side) is not None or function_of(bare(side)) in _WITHOUT_LABELS:
            return other
    if modifier and modifier.card in (VectorMatchCardinality.ManyToOne, VectorMatchCardinality.OneToMany):
        many = left if modifier.card == VectorMatchCardinality.ManyToOne else right
        return many.add(modifier.group_labels or ())
    if modifier and modifier.matching:
        named = modifier.matching.labels
        return left.keep(named) if modifier.matching.type == LabelModifierType.Include else left.drop(named)
    return left & right  # all labels have to be the same on both sides


def _called(tree: Call, recorded: Callable[[str], Labels]) -> Labels:
    function, arguments = tree.func.name, list(tree.args)
    if function in _WITHOUT_LABELS or not arguments:
        return NO_LABEL
    if function in ("absent", "absent_over_time"):
        return _asked_for(arguments[0])
    if function == "info":
        return ANY_LABEL
    vector = next((a for a in arguments if number(a) is None and not _texts(a)), arguments[0])
    inner = labels(vector, recorded)
    if function == "histogram_quantile":
        return inner.drop(["le"])
    if function in ("label_replace", "label_join"):
        return inner.add(_texts(arguments[1]))
    return inner


def _texts(tree: Any) -> list[str]:
    """The text that a tree is, in a list; an empty list for any other."""
    tree = bare(tree)
    return [tree.val] if isinstance(tree, StringLiteral) else []


def _asked_for(tree: Any) -> Labels:
    """absent() answers with the labels that its selector wants to be equal to something."""
    tree = bare(tree)
    selector = tree.vector_selector if isinstance(tree, MatrixSelector) else tree
    if not isinstance(selector, VectorSelector):
        return NO_LABEL
    equal = [m.name for m in selector.matchers.matchers if m.op == MatchOp.Equal and m.name != "__name__"]
    return Labels(frozenset(name for name in equal if equal.count(name) == 1))
