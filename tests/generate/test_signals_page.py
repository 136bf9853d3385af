"""docs/signals.md is what the catalogue and the code say."""

from __future__ import annotations

import pytest

from specwatch.generate.signals_page import SYMBOLS, filled, formula_words
from specwatch.signals.catalogue import MIN_DRAFTS, signal, signals
from specwatch.signals.dispersion import BATCH_LIVES, CAP, MEMORY
from specwatch.signals.speedup import MEASURED_TO_FORMULA
from specwatch.signals.window import COARSENESS, JUMP_BACK, LONGEST_STRETCH
from specwatch.vllm.metrics import Counter
from tools.signals_page import PAGE

TEXT = PAGE.read_text(encoding="utf-8")
PROSE = " ".join(TEXT.split())


def test_the_page_is_what_the_catalogue_makes():
    assert filled(TEXT) == TEXT, "run make generate"


def test_a_page_of_another_catalogue_is_brought_up_to_this_one():
    assert filled(TEXT.replace("| A ÷ N |", "| N ÷ A |").replace("### tpot", "### tpot_old")) == TEXT


def test_every_signal_is_on_it_with_its_metric_and_its_help():
    for entry in signals():
        assert f"### {entry.name}\n\n{entry.help}\n" in TEXT
        assert f"`{entry.metric}`" in TEXT


def test_the_figures_of_the_prose_are_the_code_s():
    assert f"acceptance needs {MIN_DRAFTS} drafts" in PROSE
    assert f"more than {LONGEST_STRETCH:.0f} times as long" in PROSE
    assert f"up to {COARSENESS:.0%} early" in PROSE
    assert JUMP_BACK == 0.5
    assert BATCH_LIVES == 3
    assert CAP == 9
    assert f"at most {round(MEMORY * 2 / 3)}" in PROSE
    assert "between {:.2f} and {:.2f} times".format(*MEASURED_TO_FORMULA) in PROSE


def test_every_counter_has_a_symbol_of_its_own():
    assert SYMBOLS.keys() == set(Counter)
    assert len({symbol for symbol, _ in SYMBOLS.values()}) == len(SYMBOLS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("acceptance_rate", "A ÷ N"),
        ("acceptance_length", "1 + A ÷ D"),
        ("tokens_per_step", "(G - F) ÷ S"),
        ("estimated_speedup", "(D + A) ÷ (D + 0.05 · N)"),
        ("decoding_requests", "T ÷ seconds"),
        ("position_acceptance", "Pᵢ ÷ D"),
    ],
)
def test_formulas_are_written_as_the_theory_writes_them(name: str, words: str):
    assert formula_words(signal(name)) == words
