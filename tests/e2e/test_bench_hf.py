"""bench-hf on the lab's models: three domains, and counts that the tokenizer confirms."""

from __future__ import annotations

import pytest

from specwatch.lab.corpus import DOMAINS, prompts
from specwatch.lab.models import LabModels
from specwatch.measure.documents import Document

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

TOKENS = 32


def test_texts_are_the_plain_ones_and_as_long_as_the_tokenizer_says(lab_models: LabModels):
    import torch

    from specwatch.measure import hf_benchmark, local_models
    from specwatch.measure.draft_evaluation import encode
    from specwatch.measure.hf_report import report

    torch.set_num_threads(1)  # more only hinder each other on models this small
    placed, target = local_models.Placed("cpu", "float32"), local_models.locate(str(lab_models.target))
    tokenizer = local_models.tokenizer(target)
    documents = [Document(domain, domain, prompt=prompts(domain, 1, seed=3)[0]) for domain in DOMAINS]
    plan = hf_benchmark.Plan(k=4, max_tokens=TOKENS, repetitions=1, warm_up=0)
    draft = local_models.load(local_models.locate(str(lab_models.draft)), placed)
    measured = list(
        hf_benchmark.measure(local_models.load(target, placed), draft, encode(tokenizer, documents, True), plan)
    )
    assert all(len(one.tokens) == TOKENS for one in measured)
    for one in measured:
        text = tokenizer.decode(one.tokens)
        if "\N{REPLACEMENT CHARACTER}" not in text:  # of Spanish letters a token is a half, also of the last one
            assert len(tokenizer.encode(text, add_special_tokens=False)) == TOKENS
    assert sum("\N{REPLACEMENT CHARACTER}" not in tokenizer.decode(one.tokens) for one in measured) >= 6
    arms = report(measured, plan)["domains"]
    assert list(arms) == [*DOMAINS, "all"]
    for domain in DOMAINS:
        assert arms[domain]["arms"]["assisted"]["equal_to_plain"] == 1.0
        assert arms[domain]["arms"]["n-gram"]["equal_to_plain"] == 1.0
    # The draft knows code and JSON, and hardly any Spanish.
    rates = {domain: arms[domain]["arms"]["assisted"]["acceptance_rate"] for domain in DOMAINS}
    assert rates["es"] < min(rates["code"], rates["json"])
