"""YAML and JSON as trees that remember where in the text every value stands.

Nothing here recurses, so that nesting costs memory only, and both are bounded. Texts are never written back from
these trees: positions are what a fix changes a few characters by.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from specwatch.errors import InputError

MOST_VALUES = 300_000
"""Values in one file: the largest published dashboards hold a tenth of it."""

_LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML was built with libyaml
_JSON_TOKEN = re.compile(r'[ \t\r\n]*(?:([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|([^\s{}\[\],:"]+))', re.DOTALL)
_MARK = "\ufeff"


@dataclass(frozen=True)
class Scalar:
    """A text, number or other single value, as text; ``start`` and ``end`` enclose it in the file."""

    value: str
    start: int
    end: int


@dataclass(frozen=True)
class Sequence:
    """A list."""

    items: tuple[Node, ...]
    start: int


@dataclass(frozen=True)
class Mapping:
    """Keys and values in the file's order."""

    entries: tuple[tuple[Scalar, Node], ...]
    start: int

    def get(self, *keys: str) -> Node | None:
        """The value below nested keys; None where one is missing. YAML's merge key ``<<`` counts."""
        node: Node | None = self
        for key in keys:
            node = node._own(key) if isinstance(node, Mapping) else None
        return node

    def _own(self, key: str) -> Node | None:
        merged: Node | None = None
        for name, value in self.entries:
            if name.value == key:
                return value
            if name.value == "<<":
                sources = value.items if isinstance(value, Sequence) else (value,)
                found = (s.entries for s in sources if isinstance(s, Mapping))
                merged = merged or next((v for entries in found for k, v in entries if k.value == key), None)
        return merged

    def text(self, *keys: str) -> str:
        """The single value below nested keys; "" where there is none."""
        node = self.get(*keys)
        return node.value if isinstance(node, Scalar) else ""

    def items(self, *keys: str) -> tuple[Node, ...]:
        """The list below nested keys; empty where there is none."""
        node = self.get(*keys)
        return node.items if isinstance(node, Sequence) else ()


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True)
class Text:
    """A file's text, and lines and columns in it."""

    content: str
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", [0, *(found.end() for found in re.finditer("\n", self.content))])

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def span(self, scalar: Scalar, start: int, end: int) -> tuple[int, int] | None:
        """Where in the file characters ``start`` to ``end`` of a value stand; None where they are not written so.

        Escapes, folded lines and indentation move characters about, so the same word is looked for that often from
        the left.
        """
        word = scalar.value[start:end]
        raw = self.content[scalar.start : scalar.end]
        if not word or raw.count(word) != scalar.value.count(word):
            return None
        at = -len(word)
        for _ in range(scalar.value.count(word, 0, start) + 1):
            at = raw.index(word, at + len(word))
        return scalar.start + at, scalar.start + at + len(word)


def read(text: str) -> list[Node]:
    """The documents of a YAML or JSON text; InputError says the line and what is wrong."""
    mark = len(text) - len(text.removeprefix(_MARK))
    body = text[mark:]
    if body.lstrip()[:1] in ("{", "["):
        problem = _json_problem(body)
        if not problem:
            return [_json(body, mark)]
        try:
            return _yaml(body, mark)  # a flow mapping of YAML starts like JSON
        except InputError:
            raise InputError(f"neither JSON ({problem}) nor YAML") from None
    return _yaml(body, mark)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, in the text's order; InputError where aliases multiply them beyond MOST_VALUES."""
    pending, left = [node], MOST_VALUES
    while pending:
        left -= 1
        if not left:
            raise InputError(f"its aliases make more than {MOST_VALUES} values of it")
        current = pending.pop()
        yield current
        if isinstance(current, Sequence):
            pending.extend(reversed(current.items))
        elif isinstance(current, Mapping):
            pending.extend(value for _, value in reversed(current.entries))


@dataclass
class _Open:
    """A list or mapping whose end has not come yet."""

    is_mapping: bool
    start: int
    anchor: str | None = None
    key: Scalar | None = None
    values: list[Node] = field(default_factory=list)
    keys: list[Scalar] = field(default_factory=list)

    def add(self, node: Node) -> None:
        if not self.is_mapping:
            self.values.append(node)
        elif self.key is None:
            self.key = node if isinstance(node, Scalar) else Scalar("", node.start, node.start)
        else:
            self.keys.append(self.key)
            self.values.append(node)
            self.key = None

    def node(self) -> Node:
        if self.is_mapping:
            return Mapping(tuple(zip(self.keys, self.values, strict=True)), self.start)
        return Sequence(tuple(self.values), self.start)


class _Builder:
    """Puts values together as they come."""

    def __init__(self) -> None:
        self.documents: list[Node] = []
        self._open: list[_Open] = []
        self._count = 0

    def begin(self, is_mapping: bool, start: int, anchor: str | None = None) -> None:
        self._open.append(_Open(is_mapping, start, anchor))

    def end(self) -> tuple[str | None, Node]:
        closed = self._open.pop()
        node = closed.node()
        self.add(node)
        return closed.anchor, node

    def add(self, node: Node) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise InputError(f"it holds more than {MOST_VALUES} values")
        if self._open:
            self._open[-1].add(node)
        else:
            self.documents.append(node)


def _yaml(text: str, shift: int) -> list[Node]:
    builder = _YamlBuilder(shift)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as problem:
        raise InputError(_yaml_problem(problem)) from None
    except RecursionError:
        raise InputError("not valid YAML: it is nested too deeply") from None
    return builder.documents


class _YamlBuilder(_Builder):
    """Puts values together from the parser's events; ``shift`` is what their positions lack."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self._shift = shift
        self._anchors: dict[str, Node] = {}

    def take(self, event: Any) -> None:
        """Add what one event brings."""
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            self.begin(is_mapping, self._offset(event.start_mark), event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._remember(*self.end())
        elif isinstance(event, yaml.ScalarEvent):
            scalar = Scalar(event.value, self._offset(event.start_mark), self._offset(event.end_mark))
            self.add(scalar)
            self._remember(event.anchor, scalar)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                line = getattr(event.start_mark, "line", 0) + 1
                raise InputError(f"line {line}: *{event.anchor} stands for nothing before it")
            self.add(self._anchors[event.anchor])

    def _offset(self, mark: Any) -> int:
        offset: int = mark.index + self._shift
        return offset

    def _remember(self, anchor: str | None, node: Node) -> None:
        if anchor:
            self._anchors[anchor] = node


def _yaml_problem(problem: yaml.YAMLError) -> str:
    if isinstance(problem, yaml.reader.ReaderError):
        return f"not valid YAML: it holds the character U+{ord(_character(problem)):04X}, which YAML does not allow"
    mark = getattr(problem, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark else ""
    return f"{where}not valid YAML: {getattr(problem, 'problem', None) or 'it cannot be read'}"


def _character(problem: yaml.reader.ReaderError) -> str:
    """The character that YAML does not take; libyaml's binding gives its number, PyYAML the character."""
    character = problem.character
    return character if isinstance(character, str) else chr(character)


def _json_problem(text: str) -> str:
    """What makes this no JSON, "" for JSON."""
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except json.JSONDecodeError as problem:
        return f"line {problem.lineno}: {problem.msg}"
    except RecursionError:
        return "it is nested too deeply"
    return ""


def _json(text: str, shift: int) -> Node:
    builder = _Builder()
    for token in _JSON_TOKEN.finditer(text):
        mark, quoted, bare = token.groups()
        start, end = token.start(token.lastindex or 0) + shift, token.end() + shift
        if mark in ("{", "["):
            builder.begin(mark == "{", start)
        elif mark in ("}", "]"):
            builder.end()
        elif not mark:
            builder.add(Scalar(json.loads(quoted) if quoted else bare, start, end))
    return builder.documents[0]
