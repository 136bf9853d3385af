from __future__ import annotations

import json

import pytest

from specwatch.collect.http import ScrapeError
from specwatch.collect.prometheus_answer import Matrix, Series
from tests.support.engines import LABELS, V1, prometheus_says, scraped, victoria_says

URL = "http://prometheus:9090"


def read(text: str) -> list[Series]:
    return list(Matrix(text.encode(), URL))


def refusal(text: str | bytes) -> str:
    with pytest.raises(ScrapeError) as caught:
        list(Matrix(text.encode() if isinstance(text, str) else text, URL))
    return str(caught.value)


def test_every_series_comes_with_its_samples():
    series = scraped({100.0: V1, 115.5: V1})
    assert read(prometheus_says(series)) == [
        (labels, [(at, float(value)) for at, value in samples]) for labels, samples in series
    ]


def test_victoria_metrics_says_the_same_in_another_order():
    series = scraped({100.0: V1})
    assert sorted(map(str, read(victoria_says(series)))) == sorted(map(str, read(prometheus_says(series))))


def test_labels_that_look_like_an_answer_are_labels():
    labels = {"__name__": "up", "odd": '"result":[{"metric":{}}]}', "result": "[", "lines": "a\nb\\"}
    assert read(prometheus_says([(labels, [(1.0, "1")])])) == [(labels, [(1.0, 1.0)])]


def test_an_answer_without_series_is_one():
    assert read(prometheus_says([])) == []


def test_a_series_of_native_histograms_alone_is_passed():
    entry = {"metric": LABELS, "histograms": [[1.0, {"count": "1"}]]}
    assert read(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [entry]}})) == []


def test_warnings_say_that_something_may_be_missing():
    matrix = Matrix(prometheus_says(scraped({1.0: V1}), ["no store matched"]).encode(), URL)
    list(matrix)
    assert matrix.warnings == ("no store matched",)


def test_a_partial_answer_of_victoria_metrics_may_lack_something():
    matrix = Matrix(victoria_says(scraped({1.0: V1}), partial=True).encode(), URL)
    list(matrix)
    assert matrix.warnings == ("it says that the answer is partial",)


def test_an_answer_is_not_read_whole_at_once():
    half = prometheus_says(scraped({1.0: V1}))[:4000]
    series = iter(Matrix(half.encode(), URL))
    assert next(series)[0]["__name__"] == "up"


@pytest.mark.parametrize("cut", [1, 2, 3, 200, 2000])
def test_an_answer_that_was_cut_off_says_so(cut: int):
    assert "was cut off on the way" in refusal(prometheus_says(scraped({1.0: V1}))[:-cut])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>Sign in</html>",
        "[]",
        "null",
        '{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        '{"status":"success","data":{"resultType":"vector","result":[]}}',
        '{"status":"success","data":[{"result":[]}]}',
        '{"data":{"resultType":"matrix","result":[{"metric":[],"values":[]}]}}',
        '{"data":{"resultType":"matrix","result":[{"metric":{"a":1},"values":[]}]}}',
        '{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1]]}]}}',
        '{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        '{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1' + "0" * 400 + ',"1"]]}]}}',
        '{"data":{"resultType":"matrix","result":' + "[" * 100_000,
    ],
)
def test_what_is_no_answer_is_refused_with_the_place(text: str):
    assert refusal(text).startswith(f"{URL}: the answer cannot be read: ")


def test_what_is_no_text_is_refused():
    assert refusal(b"\xff\xfe") == f"{URL}: the answer cannot be read: not text"
