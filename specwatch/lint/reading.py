"""From files to sources: what a document is shows in what it holds, never in its name."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from specwatch.errors import InputError
from specwatch.lint.documents import Mapping, Node, Scalar, Sequence, Text, read, walk
from specwatch.lint.expressions import Expression
from specwatch.lint.panels import panels
from specwatch.lint.sources import Inhibition, Kind, Panel, Query, Rule, Source

LARGEST_FILE = 8 * 2**20
"""Bytes of a file that is read; a cluster's rules or a dashboard take a tenth of it."""
TEXT_FILES = (".json", ".yml", ".yaml")
"""Endings of what is looked into: of files in a folder, and of a ConfigMap's entries."""

_TEMPLATE = re.compile(r"(?:\s|\{\{-?\s*/\*(?:(?!\*/).)*\*/\s*-?\}\})*\{\{-?\s*define\b", re.DOTALL)
_UNQUOTED_TEMPLATE = re.compile(r"^[^'\"#\n]*\{\{", re.MULTILINE)
_SERIES = re.compile(r"\s*label_values\((.*),\s*[\w$]+\s*\)\s*", re.DOTALL)
_RESULT = re.compile(r"\s*query_result\((.*)\)\s*", re.DOTALL)
_ALERT_NAME = re.compile(r'alertname\s*(=~|=)\s*("(?:[^"\\]|\\.)*"|[^,}\s]+)')


def content(path: Path) -> str:
    """The text of a file, its line ends as they are; InputError where it is none."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: not a file")
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise InputError(f"{path}: larger than {LARGEST_FILE // 2**20} MiB, which no rule file or dashboard is")
        return raw.decode("utf-8")
    except OSError as problem:
        raise InputError(f"{path}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None


def sources(file: str, text: str) -> list[Source]:
    """What a file's text holds, empty where that is nothing known; InputError where it cannot be read."""
    if _TEMPLATE.match(text):
        return [Source(file, Text(text), frozenset({Kind.NOT_CHECKED}))]
    try:
        documents = [part for document in read(text) for part in _parts(document)]
        own, whole = _gather(documents), Text(text)
        return [*([own.source(file, whole)] if own.kinds else []), *_entries(file, whole, documents)]
    except InputError as problem:
        hint = "; of a Helm template, lint what `helm template` prints" if _UNQUOTED_TEMPLATE.search(text) else ""
        raise InputError(f"{file}: {problem}{hint}") from None


def _parts(document: Node) -> Iterator[Mapping]:
    """The document, or what a Kubernetes List holds."""
    if isinstance(document, Mapping):
        parts = document.items("items") if document.text("kind") == "List" else (document,)
        yield from (part for part in parts if isinstance(part, Mapping))


def _entries(file: str, text: Text, documents: list[Mapping]) -> Iterator[Source]:
    """What ConfigMaps hold: dashboards for Grafana's sidecar, rules for a Prometheus without the operator."""
    for data in (document.get("data") for document in documents if document.text("kind") == "ConfigMap"):
        for key, value in data.entries if isinstance(data, Mapping) else ():
            if isinstance(value, Scalar) and key.value.endswith(TEXT_FILES):
                found = _gather(_entry(value.value))
                line, _ = text.place(value.start)
                by_line = text.content[value.start : value.start + 1] == "|"
                if found.kinds:
                    yield found.source(file, Text(value.value), key.value, line + by_line, by_line)


def _entry(text: str) -> list[Mapping]:
    try:
        return [part for document in read(text) for part in _parts(document)]
    except InputError:
        return []  # configuration of something else, in whatever it is written


class _Found:
    """Gathers what documents of one text hold."""

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self.rules: list[Rule] = []
        self.queries: list[Query] = []
        self.inhibitions: list[Inhibition] = []
        self.panels: list[Panel] = []
        self.mentions: list[Scalar] = []

    def source(self, file: str, text: Text, within: str = "", first_line: int = 1, by_line: bool = True) -> Source:
        """All of it as one source."""
        return Source(
            file,
            text,
            frozenset(self.kinds),
            tuple(self.rules),
            tuple(self.queries),
            tuple(self.inhibitions),
            tuple(self.panels),
            tuple(self.mentions),
            within,
            first_line,
            by_line,
        )

    def rules_in(self, document: Mapping) -> None:
        """Groups of rules: Prometheus' own, the operator's or Grafana's."""
        for number, group in enumerate(_groups(document), 1):
            if isinstance(group, Mapping):
                name = group.text("name") or f"number {number}"
                for rule in group.items("rules"):
                    if isinstance(rule, Mapping):
                        self._rule(name, rule)

    def _rule(self, group: str, rule: Mapping) -> None:
        alert, expr = rule.text("alert"), rule.get("expr")
        name = alert or rule.text("record")
        path = f"group {group} / {'alert' if alert else 'record'} {name}"
        if isinstance(expr, Scalar) and name:
            query = Query(expr, 0, Expression(expr.value), path)
            texts = _texts(rule.get("labels")), _texts(rule.get("annotations"))
            self.rules.append(Rule(name, bool(alert), group, query, *texts))
        elif rule.items("data"):
            self._expressions(rule, f"group {group}")

    def dashboard(self, document: Mapping) -> None:
        """Every expression of a dashboard, whatever its schema's version."""
        for body in _bodies(document):
            self.panels += panels(body)
            for _, value in body.entries:
                self._expressions(value, "")

    def _expressions(self, root: Node, path: str) -> None:
        for node, words in _titled(root, path):
            expr, legend = node.get("expr"), node.get("legendFormat")
            if isinstance(expr, Scalar) and node.text("datasource", "type") != "loki":
                label = legend if isinstance(legend, Scalar) else None
                self.queries.append(Query(expr, 0, Expression(expr.value, grafana=True), words, label))
            for key in ("query", "definition"):
                self.queries.extend(_variable(node.get(key), words))

    def alertmanager(self, document: Mapping) -> None:
        """Inhibitions, and what is said of vLLM's metrics."""
        self.mentions += [node for node in walk(document) if isinstance(node, Scalar) and "vllm" in node.value]
        for number, entry in enumerate(document.items("inhibit_rules"), 1):
            if isinstance(entry, Mapping):
                names = _alert_names(entry, "source"), _alert_names(entry, "target")
                equal = tuple(label for label in entry.items("equal") if isinstance(label, Scalar))
                self.inhibitions.append(Inhibition(*names, equal, f"inhibit_rules / number {number}"))

    def nothing(self, document: Mapping) -> None:
        """For what is known and holds nothing to check."""


def _gather(documents: list[Mapping]) -> _Found:
    found = _Found()
    for document in documents:
        for recognises, kind, take in _KINDS:
            if recognises(document):
                found.kinds.add(kind)
                take(found, document)
                break
    return found


def _texts(node: Node | None) -> tuple[tuple[str, Scalar], ...]:
    entries = node.entries if isinstance(node, Mapping) else ()
    return tuple((name.value, value) for name, value in entries if isinstance(value, Scalar))


def _titled(root: Node, path: str) -> Iterator[tuple[Mapping, str]]:
    """Every mapping below, with its own title and those above it."""
    pending = [(root, path)]
    while pending:
        node, words = pending.pop()
        if isinstance(node, Mapping):
            name = node.text("title") or node.text("refId") or node.text("name")
            words = " / ".join(filter(None, (words, name)))
            yield node, words
            pending.extend((value, words) for _, value in reversed(node.entries))
        elif isinstance(node, Sequence):
            pending.extend((item, words) for item in reversed(node.items))


def _variable(value: Node | None, path: str) -> Iterator[Query]:
    """The expression in a dashboard variable's query, ``label_values(SERIES, label)`` or ``query_result(…)``."""
    if isinstance(value, Scalar):
        for pattern, only_labels in ((_SERIES, True), (_RESULT, False)):
            found = pattern.fullmatch(value.value)
            if found:
                yield Query(value, found.start(1), Expression(found[1], grafana=True), path, only_labels=only_labels)


def _alert_names(entry: Mapping, side: str) -> tuple[tuple[str, str], ...]:
    """What an inhibition asks of alertname, as matchers are written today or were before Alertmanager 0.22."""
    texts = [text.value for text in entry.items(f"{side}_matchers") if isinstance(text, Scalar)]
    found = [(m[1], m[2].strip('"')) for text in texts for m in _ALERT_NAME.finditer(text)]
    old = (("=", entry.text(f"{side}_match", "alertname")), ("=~", entry.text(f"{side}_match_re", "alertname")))
    return (*found, *((operator, value) for operator, value in old if value))


def _groups(document: Mapping) -> tuple[Node, ...]:
    nested = document.items("spec", "groups") if document.text("kind") == "PrometheusRule" else ()
    return document.items("groups") or nested


def _bodies(document: Mapping) -> list[Mapping]:
    """Where a dashboard's parts are: in the document, in an answer of Grafana's API or in a resource of its."""
    ours = document.get("spec") if "grafana" in document.text("apiVersion") else None
    return [body for body in (document, document.get("dashboard"), ours) if isinstance(body, Mapping)]


def _has_rules(document: Mapping) -> bool:
    return any(isinstance(group, Mapping) and group.get("rules") is not None for group in _groups(document))


def _is_dashboard(document: Mapping) -> bool:
    return any(body.get(key) is not None for body in _bodies(document) for key in ("panels", "rows", "elements"))


def _has(*keys: str) -> Callable[[Mapping], bool]:
    return lambda document: all(document.get(key) is not None for key in keys)


_KINDS: tuple[tuple[Callable[[Mapping], bool], Kind, Callable[[_Found, Mapping], None]], ...] = (
    (_has("tests", "rule_files"), Kind.NOT_CHECKED, _Found.nothing),  # promtool's tests
    (_has("scrape_configs"), Kind.NOT_CHECKED, _Found.nothing),  # Prometheus' own configuration
    (_has("apiVersion", "providers"), Kind.NOT_CHECKED, _Found.nothing),  # Grafana's provisioning
    (_has("apiVersion", "datasources"), Kind.NOT_CHECKED, _Found.nothing),
    (_has_rules, Kind.RULES, _Found.rules_in),
    (_has("route", "receivers"), Kind.ALERTMANAGER, _Found.alertmanager),
    (_is_dashboard, Kind.DASHBOARD, _Found.dashboard),
)
