"""Requests made from an OpenAPI document: some as it says, some almost so, some nothing like it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=40)
    | st.sampled_from(["", "a", "gpu", "*", "[", "\x00", "\ud800", "../../etc/passwd", "' OR 1=1 --", "9" * 400]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

PLAIN: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=40) | st.sampled_from(["a", "gpu", "server", "fleet", "*"]),
    "integer": st.integers(-(2**70), 2**70) | st.integers(-2, 3),
    "number": st.floats() | st.integers(0, 2**40),
    "boolean": st.booleans(),
    "null": st.none(),
}


@dataclass(frozen=True)
class Operation:
    """One method on one path."""

    method: str
    path: str
    described: Mapping[str, Any]
    """As the document has it."""

    @property
    def documented(self) -> frozenset[int]:
        """Statuses that the document names."""
        return frozenset(int(status) for status in self.described["responses"] if status.isdecimal())


@dataclass(frozen=True)
class Asked:
    """A request."""

    path: str
    query: bytes
    body: bytes


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    """All of them."""
    for path, methods in document["paths"].items():
        yield from (Operation(method.upper(), path, described) for method, described in methods.items())


def requests(operation: Operation, document: Mapping[str, Any]) -> st.SearchStrategy[Asked]:
    """Requests for an operation."""
    parameters = operation.described.get("parameters", [])
    values = {entry["name"]: _near(entry.get("schema", {}), document) for entry in parameters}
    named = st.fixed_dictionaries({}, optional=values)
    content = operation.described.get("requestBody", {}).get("content", {}).get("application/json", {})
    return st.builds(
        lambda given, body: _asked(operation.path, parameters, given, body),
        named,
        _body(_near(content.get("schema", {}), document)),
    )


def _asked(path: str, parameters: Any, given: Mapping[str, Any], body: bytes) -> Asked:
    query = []
    for entry in parameters:
        name, value = entry["name"], _text(given.get(entry["name"], "x"))
        if entry["in"] == "path":
            path = path.replace("{" + name + "}", value or "x")
        elif name in given:
            query.append((name, value))
    return Asked(path, urlencode(query, errors="surrogatepass").encode(), body)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _body(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return st.one_of(values.map(lambda value: json.dumps(value).encode()), JUNK.map(_json), st.binary(max_size=60))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _near(schema: Mapping[str, Any], document: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema, mostly, and others."""
    return st.one_of(_of(schema, document), _of(schema, document), JUNK)


def _of(schema: Mapping[str, Any], document: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return _of(found, document)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return st.one_of([_of(each, document) for each in schema[several]])
    kind = schema.get("type")
    if kind == "array":
        return st.lists(_near(schema.get("items", {}), document), max_size=3)
    if kind == "object":
        fields = {name: _near(each, document) for name, each in schema.get("properties", {}).items()}
        return st.fixed_dictionaries({}, optional=fields)
    return PLAIN.get(str(kind), JUNK)
