from __future__ import annotations

import pytest

from specwatch.collect.shards import Shard, parse
from specwatch.errors import InputError

NAMES = [f"10.0.{i // 250}.{i % 250}:8000" for i in range(5000)]


def test_every_target_is_in_one_shard_of_five_and_each_has_about_its_share():
    shards = [{name for name in NAMES if Shard(number, 5).has(name)} for number in range(1, 6)]
    assert sum(map(len, shards)) == len(set.union(*shards)) == 5000
    # Four standard deviations of a binomial with p = 1/5 are 113.
    assert all(abs(len(shard) - 1000) < 113 for shard in shards)


def test_a_shard_that_is_added_takes_from_the_others_and_moves_nothing_between_them():
    for number in range(1, 6):
        before = {name for name in NAMES if Shard(number, 5).has(name)}
        after = {name for name in NAMES if Shard(number, 6).has(name)}
        assert after < before


def test_a_target_stays_in_its_shard_for_good():
    # Written down once: sidecars of two releases must not both leave a target to the other.
    assert [next(n for n in range(1, 6) if Shard(n, 5).has(name)) for name in NAMES[:8]] == [2, 2, 5, 4, 2, 5, 1, 5]


def test_one_shard_has_all():
    assert all(Shard().has(name) for name in NAMES)
    assert parse("1/1") == Shard()
    assert parse("2/5") == Shard(2, 5)


@pytest.mark.parametrize(
    "text", ["", "2", "0/5", "6/5", "1/1001", "a/b", "-1/5", "1/5/6", "1/²", "9999999999/9999999999"]
)
def test_what_is_no_shard_is_refused(text: str):
    with pytest.raises(InputError, match="NUMBER/OF"):
        parse(text)
