"""Fingerprints: which known domain live acceptance is most like."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from specwatch.errors import InputError
from specwatch.signals.fingerprint import Fingerprint, nearest, parse

CODE = Fingerprint("code", {3: (0.9, 0.8, 0.7), 5: (0.91, 0.82, 0.73, 0.65, 0.58)})
PROSE = Fingerprint("prose", {3: (0.6, 0.3, 0.1), 5: (0.62, 0.31, 0.12, 0.05, 0.02)})
CONTENT: dict[str, Any] = {
    "format": 1,
    "domains": {"code": {"by_k": [{"num_speculative_tokens": 2, "acceptance_by_position": [0.9, 0.75]}]}},
}


def test_the_nearest_domain_is_named_with_its_distance():
    name, distance = nearest([CODE, PROSE], (0.5, 0.3, 0.2), k=3) or ("", 0.0)
    assert name == "prose"
    assert distance == pytest.approx((0.1 + 0.0 + 0.1) / 3)


def test_each_k_is_held_against_its_own_acceptance():
    assert nearest([CODE, PROSE], CODE.by_k[5], k=5) == ("code", 0.0)


def test_without_that_k_the_nearest_one_serves_where_positions_are_shared():
    name, distance = nearest([CODE, PROSE], (0.91, 0.82, 0.73, 0.65, 0.58, 0.5, 0.4), k=7) or ("", 1.0)
    assert (name, distance) == ("code", 0.0)
    assert CODE.rates(4) == CODE.by_k[3]


def test_positions_that_are_not_known_are_left_out():
    assert nearest([CODE, PROSE], (None, 0.3, None), k=3) == ("prose", 0.0)
    assert nearest([CODE, PROSE], (None,), k=3) is None
    assert nearest([CODE, PROSE], (), k=3) is None
    assert nearest([], (0.5,), k=1) is None


def test_a_files_content_becomes_fingerprints():
    assert parse(CONTENT) == (Fingerprint("code", {2: (0.9, 0.75)}),)


def test_a_domain_whose_texts_were_too_short_is_left_out():
    content = copy.deepcopy(CONTENT)
    content["domains"]["short"] = {"documents": 1, "by_k": []}
    assert [one.name for one in parse(content)] == ["code"]


BROKEN = {
    "no object": ([], "no fingerprints"),
    "no domains": ({"format": 1}, "no fingerprints"),
    "a newer format": ({"format": 2}, "this specwatch reads 1"),
    "empty": ({"domains": {}}, "0 domains with figures"),
    "too many": ({"domains": {str(number): {} for number in range(1001)}}, "1001 domains with figures"),
    "no object in it": ({"domains": {"code": 3}}, "code: by_k"),
    "no by_k": ({"domains": {"code": {}}}, "code: by_k"),
    "no list": ({"domains": {"code": {"by_k": 3}}}, "code: by_k"),
}


@pytest.mark.parametrize(("change", "told"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_fingerprint_is_said(change, told):
    content = {**CONTENT, **change} if isinstance(change, dict) and "domains" in change else change
    content = {"domains": {"x": {}}, **content} if change == {"format": 2} else content
    with pytest.raises(InputError, match=told):
        parse(content)


@pytest.mark.parametrize("rates", [[0.9], [0.9, 1.2], [0.9, "0.7"], [0.9, None], "ab", None])
@pytest.mark.parametrize("k", [2, 0, -1, 65, "2", True])
def test_damaged_rates_are_refused(rates, k):
    content = copy.deepcopy(CONTENT)
    content["domains"]["code"]["by_k"] = [{"num_speculative_tokens": k, "acceptance_by_position": rates}]
    with pytest.raises(InputError, match="domain code"):
        parse(content)
