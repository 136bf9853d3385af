"""The study of what verdicts are worth: a small run of the same code."""

from __future__ import annotations

from benchmarks import verify_power, verify_samplers


def test_few_texts_give_both_tables():
    lines = list(verify_power.report(texts=3, few=2, tokens=100, temperatures=(1.0,)))
    assert lines[1].split()[:5] == ["temperature", "tokens", "verify", "z", "once"]
    assert lines[2].split()[:3] == ["1", "30", "0.00%"]
    assert len(lines[2].split()) == 6
    assert [line.split("  ")[-1].strip() for line in lines if "garbage" in line] == ["0.1 of tokens (in 100%)"]


def test_a_lossless_text_is_called_distorted_less_often_than_the_error_rate():
    model = verify_samplers.model(1.0)
    found = verify_power.false_verdicts(model, texts=40, tokens=128, seed=3)
    # More than 6 of 40 at a rate of 5 % happen once in a hundred times; the seed decides it once and for all.
    assert found.found <= 6


def test_plain_garbage_is_always_found():
    model = verify_samplers.model(0.7)
    assert verify_power.power(model, verify_samplers.garbage(0.5), texts=5, tokens=100, seed=1) == 1.0
