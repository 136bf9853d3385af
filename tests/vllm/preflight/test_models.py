"""Where a model's files are: folders, the Hugging Face cache, and what is said when they are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.vllm.preflight.models import (
    AbsentModel,
    RemoteModel,
    UnreadableModel,
    find,
    hub_cache,
    language_model,
)
from tests.support.models import LLAMA, cached, model, write

NAME = "org/Model-1B"


def test_a_folder_is_taken_as_it_is(tmp_path: Path):
    found = find(model(tmp_path / "m"), {})
    assert (found.folder, found.own_folder, found.config["hidden_size"]) == (tmp_path / "m", True, 64)


def test_a_repository_is_found_in_the_cache_by_the_commit_that_its_branch_names(tmp_path: Path):
    write(cached(tmp_path, NAME, "a" * 40) / "config.json", {"model_type": "old"})
    write(cached(tmp_path, NAME, "b" * 40) / "config.json", {"model_type": "new"})
    found = find(NAME, {"HF_HUB_CACHE": str(tmp_path)})
    assert (found.config, found.own_folder) == ({"model_type": "new"}, False)


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/3", "c" * 40])
def test_another_revision_is_found_by_tag_pull_request_or_commit(tmp_path: Path, revision):
    write(cached(tmp_path, NAME, "b" * 40) / "config.json", {"model_type": "main"})
    write(cached(tmp_path, NAME, "c" * 40, "refs/pr/3") / "config.json", {"model_type": "other"})
    cached(tmp_path, NAME, "c" * 40, "v1.0")
    assert find(NAME, {"HF_HUB_CACHE": str(tmp_path)}, revision).config == {"model_type": "other"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({}, str(Path.home() / ".cache/huggingface/hub")),
    ],
)
def test_the_cache_is_where_hugging_face_has_it(environment, place):
    assert str(hub_cache(environment)) == place


def test_a_download_folder_takes_the_place_of_the_cache(tmp_path: Path):
    write(cached(tmp_path, NAME) / "config.json", {})
    assert find(NAME, {"HF_HUB_CACHE": "/no/such"}, cache=str(tmp_path)).folder == cached(tmp_path, NAME)


def test_a_repository_that_is_not_cached_is_one_to_fetch(tmp_path: Path):
    with pytest.raises(RemoteModel, match=f"{NAME} is no folder here and not in the cache {tmp_path}"):
        find(NAME, {"HF_HUB_CACHE": str(tmp_path)})


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize("value", ["1", "true", "Yes"])
def test_offline_it_is_absent(tmp_path: Path, variable, value):
    with pytest.raises(AbsentModel, match="HF_HUB_OFFLINE is set") as raised:
        find(NAME, {"HF_HUB_CACHE": str(tmp_path), variable: value})
    assert not isinstance(raised.value, RemoteModel)


@pytest.mark.parametrize("name", ["/models/none", "./none", "../none", "~/none", "a/b/c", ""])
def test_a_path_that_leads_nowhere_is_no_repository_to_fetch(name):
    with pytest.raises(AbsentModel, match="there is no folder") as raised:
        find(name, {})
    assert not isinstance(raised.value, RemoteModel)


@pytest.mark.parametrize("name", ["s3://bucket/model", "gs://bucket/model"])
def test_a_place_in_the_cloud_is_left_to_vllm(name):
    with pytest.raises(RemoteModel):
        find(name, {})


def test_a_branch_file_cannot_lead_out_of_the_cache(tmp_path: Path):
    cached(tmp_path / "hub", NAME, "../../../outside")
    write(tmp_path / "outside" / "config.json", {})
    with pytest.raises(RemoteModel):
        find(NAME, {"HF_HUB_CACHE": str(tmp_path / "hub")})


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "is no model: it has no config.json"),
        ({"adapter_config.json": {}}, "is a LoRA adapter, not a model"),
        ({"step-100/config.json": {}}, "is no model: it has no config.json; .*step-100 looks like one"),
        ({"config.json": []}, "config.json holds no JSON object"),
    ],
)
def test_a_folder_that_is_no_model_is_named_with_what_it_is(tmp_path: Path, files, complaint):
    for name, content in files.items():
        write(tmp_path / name, content)
    with pytest.raises(UnreadableModel, match=complaint) as raised:
        find(str(tmp_path), {})
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b'{"a": ' + b"[" * 100_000, b"{}" + b" " * 16_000_000])
def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path, text):
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(UnreadableModel, match=r"config\.json"):
        find(str(tmp_path), {})


@pytest.mark.parametrize("name", ["params.json", "model-Q4.gguf"])
def test_a_model_in_another_form_has_no_configuration_to_look_at(tmp_path: Path, name):
    (tmp_path / name).write_text("{}")
    assert find(str(tmp_path), {}).config == {}


@pytest.mark.parametrize("key", ["text_config", "thinker_config", "transformer_layer_config"])
def test_the_language_model_is_found_inside_a_model_for_images_or_a_head(key):
    assert language_model({"hidden_size": 1, key: {"text_config": dict(LLAMA)}}) == LLAMA
