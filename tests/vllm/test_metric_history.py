"""The table of metrics against pages of real servers and against the sources of the vLLM that is installed."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from specwatch.vllm.features import NEWEST
from specwatch.vllm.metric_history import (
    CORRUPT,
    FAMILIES,
    PREFIX,
    RATIOS,
    Engine,
    Type,
    by_name,
    by_sample,
    existing,
    renaming,
)
from specwatch.vllm.metrics import GAUGES, POSITION_SERIES, SERIES, V0_ACCEPTANCE, V0_EFFICIENCY
from specwatch.vllm.releases import Release
from tests.support.pages import FIXTURES, page_text

PAGES = sorted(path.stem for path in FIXTURES.glob("vllm-*.txt"))
TYPED = re.compile(r"^# TYPE (vllm:\S+) (\w+)$", re.MULTILINE)


def release_of(page: str) -> Release:
    return Release.parse(page.split("-")[1])


def engine_of(page: str) -> Engine:
    return Engine(page.split("-")[2].upper())


def shown(page: str) -> list[tuple[str, str]]:
    """Name and type of vLLM's families as a page has them."""
    return TYPED.findall(page_text(page))


@pytest.mark.parametrize("page", PAGES)
def test_every_family_on_a_captured_page_is_known_with_its_type_and_exists_there(page: str):
    release, engine = release_of(page), engine_of(page)
    wrong = []
    for name, kind in shown(page):
        sample = f"{name}_bucket" if kind == "histogram" else name
        known = [family for family in by_sample().get(sample, ()) if family.engine is engine]
        is_start = name.endswith("_created")
        fits = [family for family in known if is_start or family.type.value == kind]
        if not any(family.exists.holds(release) for family in fits):
            wrong.append(f"{name} {kind}")
    assert not wrong


def test_the_pages_hold_families_of_both_engines():
    held = {engine_of(page): len(shown(page)) for page in PAGES}
    assert held[Engine.V0] >= 20
    assert held[Engine.V1] >= 70


def _metric_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            words = [word.value for word in node.keywords if word.arg == "name"] + node.args[:1]
            for word in words:
                if isinstance(word, ast.Constant) and isinstance(word.value, str):
                    yield word.value


@pytest.mark.vllm
def test_every_metric_in_the_sources_of_the_installed_vllm_is_known():
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    named = {
        name.removesuffix("_total") if name.removesuffix("_total") in by_name() else name
        for place in ("v1", "distributed", "entrypoints", "parser")
        for path in (folder / place).rglob("*.py")
        if PREFIX in (text := path.read_text(encoding="utf-8"))
        for name in _metric_names(text)
        if re.fullmatch(r"vllm:[a-z0-9_]+", name)
    }
    assert len(named) > 50
    assert named <= by_name().keys()


def test_what_specwatch_reads_from_pages_is_in_the_table():
    read = {*(name for names in SERIES.values() for name in names), *GAUGES.values()}
    assert read | {POSITION_SERIES, V0_ACCEPTANCE, V0_EFFICIENCY} <= by_sample().keys()


def test_no_entry_is_there_twice_for_one_engine_and_all_types_of_a_name_agree():
    for name, families in by_name().items():
        assert len({family.engine for family in families}) == len(families), name
        assert len({family.type for family in families}) == 1, name


def test_every_end_says_why_and_what_is_named_in_its_place_exists_today():
    current = {sample for family in existing(NEWEST) for sample in (family.name, *family.exposed)}
    for family in FAMILIES:
        assert (family.exists.until is None) == (not family.exists.reason), family.name
        named = re.findall(r"vllm:\w+", family.renamed + " " + family.instead)
        assert set(named) <= current, family.name


def test_the_lists_beside_the_table_name_what_is_in_it():
    assert {*CORRUPT, *RATIOS} <= by_name().keys()
    assert all(family.type is Type.COUNTER for name in CORRUPT for family in by_name()[name])
    assert all(family.type is Type.GAUGE for name in RATIOS for family in by_name()[name])


@pytest.mark.parametrize(
    ("sample", "release", "name"),
    [
        ("vllm:gpu_cache_usage_perc", "0.33.0", "vllm:kv_cache_usage_perc"),
        ("vllm:kv_cache_usage_perc", "0.9.1", "vllm:gpu_cache_usage_perc"),
        ("vllm:time_per_output_token_seconds_bucket", "0.20.0", "vllm:inter_token_latency_seconds_bucket"),
        ("vllm:gpu_prefix_cache_hits_total", "0.12.0", "vllm:prefix_cache_hits_total"),
        ("vllm:time_in_queue_requests_sum", "0.9.0", "vllm:request_queue_time_seconds_sum"),
        ("vllm:spec_decode_draft_acceptance_rate", "0.33.0", None),
        ("vllm:num_requests_running", "0.33.0", None),
        ("vllm:nothing", "0.33.0", None),
    ],
)
def test_a_renamed_sample_is_found_under_the_name_that_the_release_has(sample: str, release: str, name: str | None):
    assert renaming(sample, Release.parse(release)) == name


def test_speculation_moved_from_gauges_to_counters():
    def names(version: str) -> set[str]:
        return {family.name for family in existing(Release.parse(version))}

    assert V0_ACCEPTANCE in names("0.9.2")
    assert V0_ACCEPTANCE not in names("0.10.0")
    assert "vllm:spec_decode_num_drafts" not in names("0.8.4")
    assert "vllm:spec_decode_num_drafts" in names("0.8.5")
