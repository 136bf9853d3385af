from __future__ import annotations

import pytest

from specwatch.collect.targets import Target, parse, parse_all
from specwatch.errors import InputError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://gpu-1:8000", Target("gpu-1:8000", "http://gpu-1:8000/metrics")),
        ("gpu-1:8000", Target("gpu-1:8000", "http://gpu-1:8000/metrics")),
        ("https://gpu-1/", Target("gpu-1", "https://gpu-1/metrics")),
        ("http://gpu-1:8000/custom?x=1", Target("gpu-1:8000", "http://gpu-1:8000/custom?x=1")),
        ("blue=http://10.0.0.1:8000", Target("blue", "http://10.0.0.1:8000/metrics")),
        ("http://h:1/m?name=x", Target("h:1", "http://h:1/m?name=x")),
        ("http://[::1]:8000", Target("[::1]:8000", "http://[::1]:8000/metrics")),
    ],
)
def test_a_target_is_written_as_people_write_it(text: str, target: Target):
    assert parse(text) == target


@pytest.mark.parametrize(
    "text", ["", "ftp://h:1", "http://", "http://h:99999", "h:port", "a\x00b=http://h:1", "x" * 300 + "=http://h"]
)
def test_what_is_no_target_is_refused(text: str):
    with pytest.raises(InputError):
        parse(text)


def test_credentials_in_a_url_are_refused_without_repeating_them():
    with pytest.raises(InputError) as caught:
        parse("http://user:hunter2@gpu-1:8000")
    assert "hunter2" not in str(caught.value)


def test_two_targets_with_one_name_are_refused_by_name():
    with pytest.raises(InputError, match="two targets are called 'a'"):
        parse_all(["a=http://h:1", "b=http://h:2", "a=http://h:3"])


def test_no_target_says_how_to_name_one():
    with pytest.raises(InputError, match="--target"):
        parse_all([])
