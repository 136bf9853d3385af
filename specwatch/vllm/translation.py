"""Writes what a command line asks of speculation in the terms of one vLLM release, and says what it changed.

A command line that the release takes as it is stays as it is, word by word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specwatch.errors import InputError
from specwatch.vllm import features, refusals, schedule
from specwatch.vllm.arguments import file_options, option, present
from specwatch.vllm.checkpoint import configuration
from specwatch.vllm.defaults import written_out
from specwatch.vllm.features import FLAGS, SPECULATIVE_CONFIG, V2_BLOCK_MANAGER, Kind, Style
from specwatch.vllm.releases import Release, holding
from specwatch.vllm.schedule import SCHEDULE
from specwatch.vllm.speculation import CommandLine, Note, Speculation


@dataclass(frozen=True)
class Translation:
    """The arguments for one release."""

    arguments: tuple[str, ...]
    """What follows the program's name."""
    speculation: Speculation | None
    """With its method resolved; None without speculation."""
    notes: tuple[Note, ...]


def translate(line: CommandLine, release: Release) -> Translation:
    """Compile a command line for a release; InputError with reason and remedy where it cannot work there."""
    about_release = _release_notes(release)
    if line.speculation is None:
        _refuse_lonely(line.rest)
        arguments, dropped = _without_block_manager(line, release)
        return Translation(arguments, None, (*line.notes, *about_release, *dropped))
    asked = line.speculation
    plan, changes = _adapt(asked, line, release)
    refusals.check(plan, line.rest, release)
    remarks = _remarks(plan, line, release)
    if _fits(asked, plan, line, release):
        return Translation(line.words, plan, (*line.notes, *about_release, *changes, *remarks))
    if line.file is not None:
        raise InputError(
            f"{line.file}: what it says about speculation has to be rewritten for vLLM {release}: move it to the "
            "command line, where specwatch can do that"
        )
    words, style_notes = _write(plan, line, release)
    arguments = (*line.rest[: line.place], *words, *line.rest[line.place :])
    return Translation(arguments, plan, (*line.notes, *about_release, *style_notes, *changes, *remarks))


def _release_notes(release: Release) -> list[Note]:
    if refusals.unknown_to_us(release):
        newest = features.NEWEST
        return [Note("release", f"vLLM {release} is newer than what specwatch knows: treated like {newest}")]
    if release.unfinished:
        return [Note("release", f"vLLM {release} is a build between releases: treated like {release.finished}")]
    return []


def _refuse_lonely(rest: Sequence[str]) -> None:
    flag = features.PER_REQUEST_METRICS.name
    if present(rest, flag) and option(rest, flag) != "none":
        raise InputError(f"{flag}: vLLM refuses it without speculation")


def _without_block_manager(line: CommandLine, release: Release) -> tuple[tuple[str, ...], list[Note]]:
    fact = V2_BLOCK_MANAGER.exists
    if fact.name not in line.flags or fact.holds(release):
        return line.words, []
    return line.rest, [Note(fact.name, f"{fact.name} is left out: {fact.reason}")]


def target_model(rest: Sequence[str]) -> str | None:
    """The model to serve, from the command line or its ``--config`` file; None: vLLM's own default."""
    path = option(rest, "--config")
    from_file = file_options(path).get("--model") if path else None
    return option(rest, "--model") or (str(from_file) if from_file is not None else None)


def _adapt(asked: Speculation, line: CommandLine, release: Release) -> tuple[Speculation, list[Note]]:
    """Name the method and write renamed things in the release's words; nothing else changes."""
    method = asked.method or _infer(asked, target_model(line.rest), release)
    options = dict(asked.options)
    notes: list[Note] = []
    if method not in ("mtp", None) and method.endswith("_mtp") and holding(features.METHODS, "mtp", release):
        notes.append(Note("method", f"{method} is called mtp since 0.11.0"))
        method = "mtp"
    notes += _rename_values(options, release)
    notes += _drop_harmless(options, release)
    plan, defaults = written_out(replace(asked, method=method, options=options), line, release)
    plan, limits = schedule.limited(plan, release)
    return plan, notes + defaults + limits


def _infer(asked: Speculation, target: str | None, release: Release) -> str:
    """The method that vLLM would find out for a draft without one."""
    if asked.model is None:
        raise InputError(
            "speculation is asked for without a draft: add --speculative-model NAME, or --speculative-model "
            "'[ngram]' to draft from the prompt"
        )
    described = str(configuration(asked.model).get("model_type", ""))
    if described in ("medusa", "mlp_speculator", "eagle") or described.endswith("_mtp"):
        return described
    for part, method in features.METHOD_BY_NAME:
        if part in asked.model.lower():
            return method
    if asked.model == target:
        return "mtp" if holding(features.METHODS, "mtp", release) else "deepseek_mtp"
    words = asked.model.split(".")
    if len(words) > 1 and all(word.isidentifier() for word in words):
        return "custom_class"
    return "draft_model"


def _rename_values(options: dict[str, Any], release: Release) -> list[Note]:
    notes = []
    for key, *both in features.RENAMED_VALUES:
        facts = features.VALUES[key]
        known = [value for value in both if holding(facts, value, release)]
        if options.get(key) in both and known and options[key] not in known:
            notes.append(Note(key, f"{key} {options[key]} is called {known[0]} in {release}"))
            options[key] = known[0]
    return notes


def _drop_harmless(options: dict[str, Any], release: Release) -> list[Note]:
    """Leave out keys that are gone and would change nothing."""
    gone = [key for key in features.HARMLESS_WHEN_GONE if key in options]
    if options.get("acceptance_method", "rejection_sampler") == "rejection_sampler":
        gone += [k for k in ("acceptance_method", "posterior_threshold", "posterior_alpha") if k in options]
    notes = []
    for key in gone:
        fact = next(fact for fact in features.KEYS if fact.name == key)
        if not fact.holds(release) and fact.since.numbers <= release.numbers:
            del options[key]
            notes.append(Note(key, f"{key} is left out: {fact.reason}"))
    return notes


def _legacy(release: Release) -> bool:
    return not SPECULATIVE_CONFIG.exists.holds(release)


def _fits(asked: Speculation, plan: Speculation, line: CommandLine, release: Release) -> bool:
    """Whether the release takes the command line as it was written."""
    named = plan.method == asked.method or (asked.method is None and not _naming_matters(plan, release))
    unchanged = replace(plan, method=asked.method) == asked
    used = [flag for flag in FLAGS if flag.name in line.flags]
    exist = all(flag.exists.holds(release) for flag in used) and not line.styles & {Style.DOTTED, Style.PLAN}
    complete = V2_BLOCK_MANAGER in used or not features.V2_BLOCK_MANAGER_NEEDED.holds(release)
    return named and unchanged and exist and complete


def _naming_matters(plan: Speculation, release: Release) -> bool:
    on_v0 = holding(features.V0_METHODS, plan.method or "", release)
    return features.NAMED_METHOD_NEEDED.holds(release) and not on_v0


def _remarks(plan: Speculation, line: CommandLine, release: Release) -> list[Note]:
    """What works, and deserves a word."""
    notes = []
    tokens, length = plan.num_speculative_tokens, plan.options.get("max_model_len")
    on_v0 = holding(features.V0_METHODS, plan.method or "", release)
    if length is not None and not on_v0:
        notes.append(
            Note(
                "max_model_len",
                f"max_model_len {length}: vLLM {release} checks it but goes on speculating in longer sequences "
                "(vLLM issue 52258); the V0 engine, up to 0.9, stopped there",
            )
        )
    if line.speculation is not None and line.speculation.method is None and _naming_matters(plan, release):
        reason = features.NAMED_METHOD_NEEDED.reason
        notes.append(Note("method", f"method {plan.method} is written out: vLLM {reason}"))
    if SCHEDULE in plan.options:
        notes += schedule.remarks(plan.options[SCHEDULE], tokens)
    return notes


def _write(plan: Speculation, line: CommandLine, release: Release) -> tuple[list[str], list[Note]]:
    if not _legacy(release):
        words = [SPECULATIVE_CONFIG.name, json.dumps(plan.config(), ensure_ascii=False)]
        return words, _style_notes(line, [SPECULATIVE_CONFIG.name], release)
    words = _legacy_words(plan, release)
    written = [word for word in words if word.startswith("--")]
    needed = features.V2_BLOCK_MANAGER_NEEDED
    notes = _style_notes(line, written, release)
    if needed.holds(release):
        if needed.name not in line.flags:
            notes.append(Note(needed.name, f"{needed.name} is added: {needed.reason}"))
        words.append(needed.name)
    elif needed.name in line.flags:
        words.append(needed.name)
    return words, notes


def _legacy_words(plan: Speculation, release: Release) -> list[str]:
    """One flag a key; the method has none, vLLM finds it out from the model."""
    config = plan.config()
    config.pop("method")
    if plan.method == "ngram":
        config = {"model": "[ngram]"} | config
    flags = {flag.key: flag for flag in FLAGS if flag.style is Style.LEGACY and flag.exists.holds(release)}
    words: list[str] = []
    for key, value in config.items():
        if flags[key].kind is not Kind.SWITCH:
            words += [flags[key].name, str(value)]
        elif value:
            words.append(flags[key].name)
    return words


def _style_notes(line: CommandLine, written: Sequence[str], release: Release) -> list[Note]:
    """One line for the flags that the release does not have."""
    missing: Mapping[str, features.Flag] = {
        flag.name: flag for flag in FLAGS if flag.name in line.flags and not flag.exists.holds(release)
    }
    notes = []
    if V2_BLOCK_MANAGER.name in missing:
        name, reason = V2_BLOCK_MANAGER.name, V2_BLOCK_MANAGER.exists.reason
        notes.append(Note(name, f"{name} is left out: {reason}"))
    others = [flag for name, flag in missing.items() if name != V2_BLOCK_MANAGER.name]
    if not others:
        return notes
    first = others[0].exists
    past = first.until is not None and first.until.numbers <= release.numbers
    why = f"left vLLM with {first.until}" if past else f"came with {first.since}"
    before, after = _listed([flag.name for flag in others]), _listed(list(written))
    notes.append(Note(others[0].name, f"{before} {why}: written as {after} for {release}"))
    return notes


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
