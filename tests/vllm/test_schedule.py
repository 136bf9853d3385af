"""K by batch size: what vLLM makes of a schedule, and how a limit is written for each release."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specwatch.errors import InputError
from specwatch.vllm.arguments import read
from specwatch.vllm.releases import Release
from specwatch.vllm.schedule import SCHEDULE, check, limited, remarks, up_to
from specwatch.vllm.speculation import Speculation
from specwatch.vllm.translation import translate


def lookup(schedule: list[list[int]], largest: int) -> list[int]:
    """K for the batch sizes from 1 on, as vLLM 0.32 looks it up: gaps and the end keep the K before them."""
    found = []
    for size in range(1, largest + 1):
        found.append(next(k for first, _, k in sorted(schedule, reverse=True) if first <= size))
    return found


def at(release: str, limit: int | None, method: str = "draft_model", k: int | None = 5, **options: Any) -> Speculation:
    draft = "D" if method == "draft_model" else None
    return limited(Speculation(method, draft, k, options, limit), Release.parse(release))[0]


def refusal(*arguments: Any, **keywords: Any) -> str:
    with pytest.raises(InputError) as caught:
        at(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize(
    ("concurrency", "tokens", "expected"),
    [
        (32, 5, [[1, 16, 5], [17, 32, 3], [33, 33, 0]]),
        (33, 4, [[1, 16, 4], [17, 33, 2], [34, 34, 0]]),
        (1, 5, [[1, 1, 5], [2, 2, 0]]),
        (2, 5, [[1, 1, 5], [2, 2, 3], [3, 3, 0]]),
        (8, 1, [[1, 8, 1], [9, 9, 0]]),
    ],
)
def test_a_limit_steps_down_to_none(concurrency, tokens, expected):
    assert up_to(concurrency, tokens) == expected


@given(st.integers(1, 2000), st.integers(1, 64))
def test_a_limit_is_a_good_schedule_that_never_rises_and_ends_where_it_should(concurrency, tokens):
    schedule = up_to(concurrency, tokens)
    check(schedule)
    assert remarks(schedule, tokens) == []
    found = lookup(schedule, concurrency + 2)
    assert found == sorted(found, reverse=True)
    assert found[0] == tokens
    assert found[concurrency - 1] > 0
    assert found[concurrency:] == [0, 0]


@pytest.mark.parametrize(
    ("schedule", "tokens", "expected"),
    [
        ([[1, 16, 5], [17, 32, 3], [33, 33, 0]], 5, []),
        ([[33, 33, 0], [1, 32, 5]], None, []),
        ([[1, 4, 5], [9, 12, 0]], 5, ["the schedule says nothing of batch sizes 5 to 8: K stays 5 there"]),
        ([[1, 4, 5], [6, 12, 0]], 5, ["the schedule says nothing of batch sizes 5: K stays 5 there"]),
        ([[1, 4, 5], [5, 8, 2]], 5, ["the schedule ends at batch size 8: K stays 2 beyond"]),
        ([[1, 4, 7], [5, 5, 0]], 5, ["K 7 in the schedule is cut to num_speculative_tokens 5"]),
    ],
)
def test_what_vllm_fills_in_by_itself_is_said(schedule, tokens, expected):
    check(schedule)
    assert [note.text for note in remarks(schedule, tokens)] == expected


@pytest.mark.parametrize("release", ["0.24.0", "0.28.0", "0.32.0", "0.33.0", "0.40.0"])
def test_newer_releases_get_a_schedule(release):
    assert at(release, 32).options == {SCHEDULE: [[1, 16, 5], [17, 32, 3], [33, 33, 0]]}
    assert at(release, 32).max_concurrency is None


@pytest.mark.parametrize(
    ("release", "method"), [("0.4.3", "draft_model"), ("0.8.5", "ngram"), ("0.9.2", "draft_model")]
)
def test_the_v0_engine_gets_the_batch_size_from_which_it_stops(release, method):
    assert at(release, 32, method).options == {"disable_by_batch_size": 33}


def test_the_limit_of_one_request_is_one_that_the_v0_engine_takes():
    assert at("0.7.3", 1).options == {"disable_by_batch_size": 2}  # it wants more than 1


@pytest.mark.parametrize(
    ("release", "method"), [("0.9.2", "ngram"), ("0.10.2", "ngram"), ("0.16.0", "draft_model"), ("0.23.0", "eagle3")]
)
def test_releases_between_cannot_and_say_what_to_do(release, method):
    assert refusal(release, 32, method) == (
        f"--max-spec-concurrency 32: vLLM {release} cannot stop drafting by batch size. vLLM 0.24.0 has {SCHEDULE} for "
        "it. Until then cap the batch, --max-num-seqs 32: more requests wait for their turn; or serve the busy hours "
        "without speculation."
    )


@pytest.mark.parametrize("release", ["0.4.1", "0.4.2"])
def test_the_oldest_releases_have_no_limit_either(release):
    assert "cannot stop drafting by batch size" in refusal(release, 32)


def test_a_limit_steps_down_from_a_k_that_has_to_be_known():
    assert "--max-spec-concurrency 32 needs num_speculative_tokens" in refusal("0.32.0", 32, "mtp", None)


@pytest.mark.parametrize("key", [SCHEDULE, "disable_by_batch_size"])
def test_two_limits_are_refused(key):
    assert f"--max-spec-concurrency 32 and {key}: both say" in refusal("0.32.0", 32, **{key: [[1, 1, 1]]})


def test_a_method_that_the_release_lacks_is_refused_for_that():
    assert at("0.12.0", 32).max_concurrency == 32
    line = read(shlex.split("--model M --speculative-model D --num-speculative-tokens 5"))
    with pytest.raises(InputError, match="cannot speculate with method draft_model"):
        translate(line, Release.parse("0.12.0"))


@pytest.mark.parametrize(
    ("release", "arguments", "problem"),
    [
        ("0.33.0", "--spec-method suffix --spec-tokens 3", "with method suffix on vLLM 0.33.0: vLLM switches"),
        ("0.33.0", "--spec-method ngram_gpu --spec-tokens 3", "with method ngram_gpu on vLLM 0.33.0"),
        ("0.32.0", "--spec-method ngram --spec-tokens 3 -dp 2", "with --data-parallel-size 2: replicas that draft"),
        ("0.24.0", "--spec-method ngram --spec-tokens 3 --data-parallel-size 4", "with --data-parallel-size 4"),
    ],
)
def test_a_schedule_that_would_not_be_followed_is_refused(release, arguments, problem):
    line = read(shlex.split(f"--model M {arguments} -sc.{SCHEDULE} {json.dumps([[1, 4, 3], [5, 5, 0]])!r}"))
    with pytest.raises(InputError, match="num_speculative_tokens_per_batch_size") as caught:
        translate(line, Release.parse(release))
    assert problem in str(caught.value)


@pytest.mark.parametrize("release", ["0.24.0", "0.32.0"])
def test_a_schedule_is_followed_with_these_methods_before(release):
    line = read(["--model", "M", "-sc", json.dumps({"method": "suffix", SCHEDULE: [[1, 4, 3], [5, 5, 0]]})])
    assert translate(line, Release.parse(release)).speculation is not None
