"""Reads a vLLM command line, old or new, and finds what it says about speculation.

Names are read as vLLM reads them: dashes or underscores, ``--flag value`` or ``--flag=value``, dotted keys of
a JSON flag. Everything that is not about speculation stays as it was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm.features import FLAGS, PER_REQUEST_METRICS, SPECULATIVE_CONFIG, Flag, Kind, Style
from specwatch.vllm.speculation import CommandLine, Note, Speculation

MODULE = "vllm.entrypoints.openai.api_server"
_PROGRAMS = (
    ("python", "-m", MODULE),
    ("python3", "-m", MODULE),
    ("vllm", "serve"),
    ("serve",),
)
"""What may stand before the arguments when a whole line was pasted."""
_NGRAM = ("ngram", "[ngram]")
_FLAGS = {name: flag for flag in FLAGS for name in (flag.name, *flag.aliases)}
_OURS = ("--spec-", "--speculative", "--num-spec", "--ngram-", "--typical-acceptance", "--disable-logprobs-during")
"""Flags that begin so are about speculation: an unknown one is a slip, not something to pass on."""


@dataclass(frozen=True)
class _Setting:
    """One key with its value and the flag that gave it."""

    key: str
    value: Any
    flag: str


@dataclass(frozen=True)
class _Parts:
    """The words about speculation, and the others."""

    rest: list[str]
    settings: list[_Setting]
    flags: list[Flag]
    styles: frozenset[Style]
    place: int


def read(words: Sequence[str]) -> CommandLine:
    """Take a command line apart; InputError where it contradicts itself or cannot be read.

    ``words`` are vLLM's arguments: with or without the program in front, with ``--model`` or with the model in
    first place.
    """
    arguments, notes = _model_as_flag(_without_program(list(words)))
    parts = _sort_out(arguments)
    path = option(parts.rest, "--config")
    from_file = _from_file(path) if path else None
    if from_file and parts.settings:
        raise InputError(f"speculation is asked for on the command line and in {path}: keep one of them")
    source = from_file or parts
    merged, merge_notes = _merge(source.settings)
    asks = any(flag.key or flag.kind is Kind.JSON for flag in source.flags)
    return CommandLine(
        words=tuple(arguments),
        rest=tuple(parts.rest),
        place=parts.place,
        speculation=_speculation(merged) if asks else None,
        flags=tuple(dict.fromkeys(flag.name for flag in source.flags)),
        styles=source.styles,
        file=path if from_file else None,
        notes=(*notes, *merge_notes),
    )


def option(words: Sequence[str], name: str, *aliases: str) -> str | None:
    """The value that a flag has on a command line: the last one, as vLLM takes it; None when it is not there."""
    value = None
    for index, word in enumerate(words):
        written, inline = _split(word)
        if written in (name, *aliases):
            value = inline if inline is not None else next(iter(words[index + 1 : index + 2]), None)
    return value


def present(words: Sequence[str], name: str, *aliases: str) -> bool:
    """Whether a flag is on the command line, with a value or without."""
    return any(_split(word)[0] in (name, *aliases) for word in words)


def file_options(path: str) -> Mapping[str, Any]:
    """The options of a vLLM ``--config`` file by flag (``--port``); InputError when it is no YAML mapping."""
    import yaml  # only command lines with --config pay for it

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InputError(f"--config {path}: cannot be read: {problem}") from problem
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"--config {path}: a mapping of option to value is needed, as vLLM reads it")
    return {_split(f"--{key}")[0]: value for key, value in content.items()}


def _split(word: str) -> tuple[str, str | None]:
    """Name and inline value of an option; a word that is none comes back as it is."""
    if not word.startswith("-"):
        return word, None
    name, equals, value = word.partition("=")
    if name.startswith("--"):
        head, dot, keys = name.partition(".")
        name = head.replace("_", "-") + dot + keys
    return name, value if equals else None


def _without_program(words: list[str]) -> list[str]:
    for program in _PROGRAMS:
        if tuple(words[: len(program)]) == program:
            return words[len(program) :]
    return words


def _model_as_flag(words: list[str]) -> tuple[list[str], list[Note]]:
    """Write a model in first place as ``--model``."""
    if not words or words[0].startswith("-"):
        return words, []
    model, others = words[0], words[1:]
    if option(others, "--model") not in (None, model):
        raise InputError(f"two models: {model} in first place and --model {option(others, '--model')}")
    note = Note("--model", f"{model} is written as --model: {MODULE} ignores a model without the flag")
    return ["--model", model, *others] if option(others, "--model") is None else others, [note]


def _sort_out(words: list[str]) -> _Parts:
    """Part the words on speculation from the others."""
    rest: list[str] = []
    settings: list[_Setting] = []
    flags: list[Flag] = []
    styles: set[Style] = set()
    place = -1
    queue = iter(enumerate(words))
    for index, word in queue:
        name, inline = _split(word)
        base, _, path = name.partition(".")
        flag = _FLAGS.get(base)
        if flag is None or (path and flag.kind is not Kind.JSON):
            _refuse_slip(name)
            rest.append(word)
            continue
        place = len(rest) if place < 0 else place
        if flag is SPECULATIVE_CONFIG and not path and flag in flags:
            raise InputError(f"{flag.name} is given twice, and vLLM reads only the last: write one object")
        flags.append(flag)
        styles.add(Style.DOTTED if path else flag.style)
        following = words[index + 1] if index + 1 < len(words) else None
        value = inline if inline is not None else _following(flag, following)
        if inline is None and value is not None:
            next(queue)
        settings += _settings(flag, path, value)
    return _Parts(rest, settings, flags, frozenset(styles), max(place, 0))


def _following(flag: Flag, word: str | None) -> str | None:
    """The next word where it is the flag's value; InputError where the flag needs one and there is none."""
    if flag.kind is Kind.SWITCH:
        return None
    if flag.kind is Kind.BOOLEAN:
        return word if word is not None and word.lower() in ("true", "false") else None
    if word is None or word.startswith("--"):
        raise InputError(f"{flag.name}: {flag.kind.value} is missing behind it")
    return word


def _settings(flag: Flag, path: str, value: str | None) -> Iterator[_Setting]:
    if path:
        yield _dotted(flag, path, value or "")
    elif flag.kind is Kind.JSON:
        for key, item in read_config(value or "", flag.name).items():
            yield _Setting(key, item, flag.name)
    elif flag.key:
        yield _Setting(flag.key, _convert(flag, value), flag.name)


def _dotted(flag: Flag, path: str, text: str) -> _Setting:
    """``--speculative-config.method mtp``: a value is JSON where it can be, else text, as vLLM has it."""
    key, *deeper = path.split(".")
    if not key or path.endswith("+"):
        raise InputError(f"{flag.name}.{path}: write lists and nested keys as JSON behind {flag.name}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    for inner in reversed(deeper):
        value = {inner: value}
    return _Setting(key, value, f"{flag.name}.{path}")


def _convert(flag: Flag, value: str | None) -> Any:
    text = value or ""
    try:
        if flag.kind is Kind.INTEGER:
            return int(text)
        if flag.kind is Kind.NUMBER:
            return float(text)
    except ValueError:
        raise InputError(f"{flag.name} {text}: {flag.kind.value} is needed") from None
    if flag.kind is Kind.SWITCH:
        return True
    if flag.kind is Kind.BOOLEAN:
        return text.lower() != "false"
    return text


def read_config(text: str, flag: str) -> dict[str, Any]:
    """The object behind ``--speculative-config``; InputError with the place where it is none."""
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as problem:
        raise InputError(
            f"{flag}: no JSON at character {problem.pos + 1} ({problem.msg}): {text}\n"
            "Put the whole in single quotes for the shell, keys and words inside it in double quotes, and write "
            "true, false and null in lower case."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f'{flag}: a JSON object is needed, such as {{"method": "ngram"}}, not {text}')
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if content.get(key, value) != value:
            raise InputError(f"{SPECULATIVE_CONFIG.name}: {key} is given twice: {content[key]} and {value}")
        content[key] = value
    return content


def _refuse_slip(name: str) -> None:
    """InputError for an unknown flag on speculation: vLLM would end with a page of usage."""
    if name == PER_REQUEST_METRICS.name or not name.startswith(_OURS):
        return
    near = get_close_matches(name, [flag.name for flag in FLAGS], n=1)
    hint = f"; {near[0]} is the nearest that it has" if near else ""
    raise InputError(f"{name}: no flag of vLLM that specwatch knows{hint}. Behind -- it is passed on unread.")


def _from_file(path: str) -> _Parts | None:
    """What a ``--config`` file says about speculation; None where it says nothing."""
    settings: list[_Setting] = []
    flags = [(_FLAGS[name], value) for name, value in file_options(path).items() if name in _FLAGS]
    for flag, value in flags:
        if flag.kind is Kind.JSON:
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            settings += _settings(flag, "", text)
        elif flag.key:
            settings.append(_Setting(flag.key, value, flag.name))
    if not settings:
        return None
    return _Parts([], settings, [flag for flag, _ in flags], frozenset(flag.style for flag, _ in flags), 0)


def _merge(settings: Sequence[_Setting]) -> tuple[dict[str, Any], list[Note]]:
    """One value a key: the last of one flag counts, as in vLLM; two flags must agree."""
    chosen: dict[str, _Setting] = {}
    notes = []
    for setting in settings:
        earlier = chosen.get(setting.key)
        if earlier is not None and earlier.value != setting.value:
            if earlier.flag != setting.flag or setting.flag == SPECULATIVE_CONFIG.name:
                raise InputError(
                    f"{setting.key} is given twice: {earlier.value} by {earlier.flag} and {setting.value} by "
                    f"{setting.flag}. Keep one of them."
                )
            notes.append(Note(setting.flag, f"{setting.flag} is given twice: {setting.value} counts, the last one"))
        chosen[setting.key] = setting
    return {key: setting.value for key, setting in chosen.items()}, notes


def _speculation(keys: Mapping[str, Any]) -> Speculation:
    options = dict(keys)
    method = _text(options.pop("method", None), "method")
    model = _text(options.pop("model", None), "model")
    tokens = options.pop("num_speculative_tokens", None)
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
        raise InputError(f"num_speculative_tokens: a whole number is needed, not {json.dumps(tokens)}")
    if model in _NGRAM and method in (None, *_NGRAM):
        method, model = "ngram", None
    return Speculation("ngram" if method in _NGRAM else method, model, tokens, options)


def _text(value: Any, key: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"{key}: a name is needed, not {json.dumps(value)}")
