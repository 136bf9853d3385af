"""The lab's texts: real Python, real JSON, real Spanish; the same for the same seed, and never in a loop."""

from __future__ import annotations

import ast
import collections
import itertools
import json
import re
import zlib

import pytest

from specwatch.errors import InputError
from specwatch.lab import corpus, phrases

every_domain = pytest.mark.parametrize("domain", corpus.DOMAINS)


def some(domain: str, count: int = 40, seed: int = 3) -> list[str]:
    return list(itertools.islice(corpus.documents(domain, seed), count))


def test_code_is_valid_python():
    for document in some("code"):
        ast.parse(document)


def test_json_is_valid_and_holds_several_records():
    for document in some("json"):
        records = next(value for value in json.loads(document).values() if isinstance(value, list))
        assert len(records) > 3


def test_spanish_has_its_accents_and_no_unfilled_field():
    for document in some("es"):
        assert set("áéíóúñ¿") & set(document)
        assert "$" not in document


@every_domain
def test_every_field_of_every_template_is_filled(domain: str):
    assert not [document for document in some(domain, count=200) if re.search(r"\$[a-zA-Z]", document)]


@every_domain
def test_the_same_seed_gives_the_same_documents(domain: str):
    assert some(domain, seed=5) == some(domain, seed=5)
    assert some(domain, seed=5) != some(domain, seed=6)


@every_domain
def test_documents_are_longer_than_a_prompt_and_its_answer(domain: str):
    assert min(len(document) for document in some(domain)) >= corpus.DOCUMENT_CHARACTERS - len("\n\n")


@every_domain
def test_no_document_goes_round_in_a_loop(domain: str):
    for document in some(domain, count=200):
        pieces = collections.Counter(document[start : start + 60] for start in range(len(document) - 60))
        repeated = sum(count - 1 for count in pieces.values())
        assert repeated < 0.4 * len(document), document


@every_domain
def test_a_document_cannot_be_recited_from_another(domain: str):
    lines = [{line for line in document.splitlines() if len(line) > 40} for document in some(domain, count=60)]
    seen = set().union(*lines[:-20])
    fresh = [line for lines_of_one in lines[-20:] for line in lines_of_one if line not in seen]
    assert len(fresh) > 0.3 * sum(len(lines_of_one) for lines_of_one in lines[-20:])


@every_domain
def test_prompts_begin_documents_that_training_never_sees(domain: str):
    held_out = corpus.prompts(domain, count=50, seed=0)
    shortest, longest = corpus.PROMPT_CHARACTERS
    assert all(shortest <= len(prompt) <= longest for prompt in held_out)
    assert len(set(held_out)) == 50
    assert held_out == corpus.prompts(domain, count=50, seed=0)
    assert held_out != corpus.prompts(domain, count=50, seed=1)
    trained = {document[:shortest] for seed in range(3) for document in some(domain, count=100, seed=seed)}
    assert len([prompt for prompt in held_out if prompt[:shortest] in trained]) < 50


def test_domains_are_told_apart_by_compression():
    texts = {domain: "".join(some(domain, count=10)).encode() for domain in corpus.DOMAINS}
    for domain, other in itertools.permutations(corpus.DOMAINS, 2):
        sample = "".join(some(domain, count=2, seed=9)).encode()
        with_own = len(zlib.compress(texts[domain] + sample)) - len(zlib.compress(texts[domain]))
        with_other = len(zlib.compress(texts[other] + sample)) - len(zlib.compress(texts[other]))
        assert with_own < with_other


def test_the_fingerprint_changes_with_a_word(monkeypatch: pytest.MonkeyPatch):
    before = corpus.fingerprint()
    assert before == corpus.fingerprint()
    monkeypatch.setitem(phrases.LISTS, "city", ("Paris",))
    assert corpus.fingerprint() != before


def test_a_numbered_field_is_the_same_word_in_every_case(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(phrases, "CODE_HEADS", ("$noun1 $Noun1 $NOUN1s\n",))
    first, capital, plural = some("code", count=1)[0].splitlines()[0].split()
    assert capital == first.capitalize()
    assert plural == first.upper() + "s"


def test_an_unknown_domain_is_refused():
    with pytest.raises(InputError, match=r"no domain 'latin'.*code, json, es"):
        corpus.documents("latin", seed=0)
