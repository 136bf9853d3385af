"""PromQL as a tree, and where in the text its metric names stand.

The parser is PyPI's promql-parser. It needs Grafana's variables replaced first, gives no positions, and its recursion
ends the process on deep nesting: so a small lexer goes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import promql_parser

LONGEST = 50_000
"""Characters of an expression that is parsed; the longest of published dashboards have a tenth of it."""
DEEPEST = 200
"""Brackets and operators in one another; the parser needs quadratic time for them and crashes at some thousands."""

VARIABLE = "grafana_variable"
"""Stands in names and label values for what Grafana fills in."""

_VAR = r"\$\{[^}]{1,200}\}|\$(?!\d)\w+|\[\[\w+(?::\w+)?\]\]"
_TOKEN = re.compile(
    rf"""(?P<comment>\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<word>(?:[a-zA-Z_:]|{_VAR})(?:[\w:]|{_VAR})*)
    |(?P<number>\d[\w.]*)
    |(?P<operator>=~|!~|==|!=|<=|>=|[-+*/%^<>=])
    |(?P<mark>\S)""",
    re.VERBOSE,
)
_VARIABLE = re.compile(_VAR)
_ALONE = re.compile(f"(?:{_VAR})")
_UNIT = re.compile(rf"(?:{_VAR})(ms|[smhdwy])?")
_OPERATOR_WORDS = frozenset({"and", "or", "unless", "atan2"})
_COMPUTING = frozenset({"+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">=", "bool"})
_PARAMETRIC = frozenset(
    {"topk", "bottomk", "limitk", "limit_ratio", "quantile", "quantile_over_time", "histogram_quantile"}
)
"""What takes a number first."""


@dataclass(frozen=True)
class Name:
    """A word that may be a metric's name, and its place in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True)
class Expression:
    """One expression as it was written; ``grafana`` says whether it may hold Grafana's variables."""

    text: str
    grafana: bool = False

    @cached_property
    def _parsed(self) -> tuple[Any, str]:
        too_large = self._too_large()
        if too_large:
            return None, too_large
        problem = ""
        for text in self._candidates():
            try:
                return promql_parser.parse(text), ""
            except ValueError as refused:
                problem = problem or " ".join(str(refused).split())[:120]
        return None, problem

    @property
    def tree(self) -> Any:
        """The parser's tree, None where the text is no PromQL that it knows."""
        return self._parsed[0]

    @property
    def problem(self) -> str:
        """Why there is no tree."""
        return self._parsed[1]

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Words of the text that may be metrics' names, with VARIABLE in the place of Grafana's."""
        return tuple(self._names())

    def name(self, text: str, occurrence: int) -> Name | None:
        """The n-th place, from 0, where a name stands; None where it does not stand so often."""
        found = [name for name in self.names if name.text == text]
        return found[occurrence] if occurrence < len(found) else None

    @cached_property
    def _tokens(self) -> list[_Token]:
        found = _TOKEN.finditer(self.text, 0, LONGEST)
        return [_Token(t.lastgroup or "", t.group(), t.start()) for t in found if t.lastgroup != "comment"]

    def _too_large(self) -> str:
        if len(self.text) > LONGEST:
            return f"it is longer than {LONGEST} characters"
        deep = deepest = operators = 0
        for token in self._tokens:
            deep += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            deepest = max(deepest, deep)
            operators += token.kind == "operator" or token.text.lower() in _OPERATOR_WORDS
        return f"it nests more than {DEEPEST} brackets and operators" if deepest + operators > DEEPEST else ""

    def _names(self) -> Iterator[Name]:
        before, within = ("", ""), [""]
        end = _Token("", "", len(self.text))
        for token, after in pairwise([*self._tokens, end]):
            _enter_or_leave(within, token.text)
            if token.kind == "word":
                yield Name(self._filled(token.text), token.start, token.start + len(token.text))
            elif token.kind == "string" and within[-1] == "{" and _is_name(before, after.text):
                yield Name(self._filled(token.text[1:-1]), token.start + 1, token.start + len(token.text) - 1)
            before = (before[1], token.text)

    def _filled(self, text: str) -> str:
        return _VARIABLE.sub(VARIABLE, text) if self.grafana else text

    def _candidates(self) -> Iterator[str]:
        """The text with Grafana's variables replaced: what stands for a number or a function has to be guessed."""
        if not (self.grafana and _VARIABLE.search(self.text)):
            yield self.text
            return
        yield from dict.fromkeys(
            _Filler(self._tokens, self.text, number, function).fill()
            for number in (None, True, False)
            for function in ("sum", "rate")
        )


def _enter_or_leave(within: list[str], text: str) -> None:
    """Keep the brackets that are open, the innermost last, behind a "" that stands for none."""
    if text in ("(", "[", "{"):
        within.append(text)
    elif text in (")", "]", "}") and len(within) > 1:
        within.pop()


def _is_name(before: tuple[str, str], after: str) -> bool:
    """Whether a text quoted in braces is a metric's name: ``{__name__="x"}``, or ``{"x"}`` as Prometheus 3 has it."""
    return before == ("__name__", "=") or (before[1] in ("{", ",") and after in ("}", ","))


@dataclass(frozen=True)
class _Filler:
    """Writes an expression again with Grafana's variables replaced.

    ``number`` says whether a lone variable is a number, None to tell by what stands before it.
    """

    tokens: list[_Token]
    text: str
    number: bool | None
    function: str

    def fill(self) -> str:
        pieces, written, within = [], 0, [""]
        for index, token in enumerate(self.tokens):
            _enter_or_leave(within, token.text)
            replaced = self._replaced(index, token, within[-1])
            if replaced != token.text:
                pieces += [self.text[written : token.start], replaced]
                written = token.start + len(token.text)
        return "".join([*pieces, self.text[written:]])

    def _replaced(self, index: int, token: _Token, bracket: str) -> str:
        if token.kind not in ("word", "string") or not _VARIABLE.search(token.text):
            return token.text
        before = [t.text.lower() for t in self.tokens[max(index - 2, 0) : index]]
        if token.kind == "string":
            return _VARIABLE.sub(VARIABLE, token.text)
        if bracket == "[" or before[-1:] == ["offset"] or before[-2:] == ["offset", "-"]:
            return _UNIT.sub(lambda found: f"5{found[1] or 'm'}", token.text)
        if not _ALONE.fullmatch(token.text):
            return _VARIABLE.sub(VARIABLE, token.text)
        after = self.tokens[index + 1].text if index + 1 < len(self.tokens) else ""
        return self._lone(before, after, bracket)

    def _lone(self, before: list[str], after: str, bracket: str) -> str:
        if bracket == "{":
            return VARIABLE if after in ("=", "!=", "=~", "!~") else f'{VARIABLE}=""'
        if after.lower() in ("(", "by", "without"):
            return self.function
        number = before[-1:] and before[-1] in _COMPUTING
        number = number or (len(before) == 2 and before[1] == "(" and before[0] in _PARAMETRIC)
        return "1" if (number if self.number is None else self.number) else VARIABLE
