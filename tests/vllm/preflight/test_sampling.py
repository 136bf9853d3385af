"""Sampling parameters that go badly with speculation, by release."""

from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.vllm.preflight.findings import Severity
from specwatch.vllm.preflight.run import examine
from tests.support.models import codes, found, model, planned, write


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("0.9.2", "or logprobs is served without speculation"),
        ("0.15.0", "a request with min_tokens, min_p or logit_bias is refused with status 400"),
        ("0.32.0", "a request with min_p or logit_bias is refused with status 400"),
    ],
)
def test_what_clients_cannot_use_is_a_note(release, words):
    assert words in found(examine(planned("org/m", method="ngram", release=release)).findings, "sampling").text


def test_the_v0_engine_takes_all_of_them():
    assert codes(examine(planned("org/m", method="ngram", release="0.7.3")).findings) == []


@pytest.mark.parametrize(
    ("release", "defaults", "flags", "warned"),
    [
        ("0.32.0", {"min_p": 0.1}, "", True),
        ("0.32.0", {"min_p": 0.0}, "", False),
        ("0.32.0", {"repetition_penalty": 1.1}, "", False),
        ("0.10.2", {"repetition_penalty": 1.1}, "", True),
        ("0.32.0", {"min_p": 0.1}, "--generation-config vllm", False),
        ("0.32.0", {"min_p": 0.1}, '--override-generation-config {"min_p":0}', False),
        ("0.32.0", {}, '--override-generation-config {"min_p":0.2}', True),
        ("0.32.0", {}, "--override-generation-config {", False),
    ],
)
def test_a_default_of_the_server_that_would_meet_every_request_is_a_warning(
    tmp_path: Path, release, defaults, flags, warned
):
    target = model(tmp_path)
    write(tmp_path / "generation_config.json", defaults)
    told = examine(planned(target, method="ngram", release=release, words=flags)).findings
    assert ("default-sampling" in codes(told)) is warned
    if warned:
        finding = found(told, "default-sampling")
        assert finding.severity is Severity.WARNING
        assert "--override-generation-config" in finding.remedy


def test_without_speculation_nothing_is_said():
    assert codes(examine(planned("org/m", method="")).findings) == []
