from __future__ import annotations

import json
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.push.dashboards import MOST_FILES, State, digest, files_in, folder_uid, judge, read_dashboards
from specwatch.push.grafana import Stored

WANTED = {"uid": "a", "title": "A", "panels": []}
OURS = f"specwatch 0.1.0, sha256 {digest(WANTED)}"
OUR_OLD = "specwatch 0.1.0, sha256 " + "0" * 64


def stored(dashboard: dict[str, object], folder: str = "f", provisioned: bool = False, writable: bool = True) -> Stored:
    return Stored({**dashboard, "id": 7, "version": 3}, 3, folder, "F", provisioned, writable)


@pytest.mark.parametrize(
    ("held", "message", "state"),
    [
        (None, None, State.NEW),
        (stored(WANTED), OURS, State.UNCHANGED),
        (stored(WANTED), "", State.UNCHANGED),
        (stored({**WANTED, "title": "older"}), OUR_OLD, State.CHANGED),
        (stored({**WANTED, "title": "theirs"}), "", State.EDITED),
        (stored({**WANTED, "title": "theirs"}), "Restored from version 2", State.EDITED),
        (stored({**WANTED, "title": "theirs"}), f"{OURS} and more", State.EDITED),
        (stored({**WANTED, "title": "theirs"}), None, State.EDITED),
        (stored(WANTED, folder="other"), OURS, State.ELSEWHERE),
        (stored({**WANTED, "title": "older"}, folder="other"), OUR_OLD, State.ELSEWHERE),
        (stored({**WANTED, "title": "older"}, provisioned=True), OUR_OLD, State.LOCKED),
        (stored({**WANTED, "title": "older"}, writable=False), OUR_OLD, State.LOCKED),
        (stored(WANTED, provisioned=True), None, State.UNCHANGED),
    ],
)
def test_a_stored_dashboard_is_judged_by_its_content_its_folder_and_who_saved_it(held, message, state):
    assert judge(WANTED, held, message, "f") is state


def test_a_dashboard_that_grafana_wrote_in_other_words_is_known_by_the_digest_of_what_was_pushed():
    rewritten = stored({**WANTED, "schemaVersion": 99})
    assert judge(WANTED, rewritten, OURS, "f") is State.UNCHANGED
    assert judge({**WANTED, "title": "B"}, rewritten, OURS, "f") is State.CHANGED


def test_what_grafana_sets_itself_is_no_difference():
    assert digest({**WANTED, "id": 3, "version": 9}) == digest(WANTED)
    assert digest({**WANTED, "title": "B"}) != digest(WANTED)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no Grafana dashboard"),
        ('{"uid": "a", "title": "A"}', "no Grafana dashboard"),
        ('{"title": "A", "panels": []}', "uid"),
        ('{"uid": "a/../b", "title": "A", "panels": []}', "uid"),
        ('{"uid": 5, "title": "A", "panels": []}', "uid"),
        ('{"uid": "a", "title": " ", "panels": []}', "no title"),
    ],
)
def test_a_file_that_is_no_dashboard_is_named(text, words):
    with pytest.raises(InputError, match=words) as caught:
        read_dashboards([("bad.json", text)])
    assert "bad.json" in str(caught.value)


def test_two_files_with_one_uid_are_refused():
    with pytest.raises(InputError, match=r"two\.json and one\.json"):
        read_dashboards([("one.json", json.dumps(WANTED)), ("two.json", json.dumps(WANTED))])


def test_only_the_json_files_right_in_the_folder_are_read(tmp_path: Path):
    (tmp_path / "b.json").write_text("B")
    (tmp_path / "a.json").write_text("A")
    (tmp_path / "provisioning").mkdir()
    (tmp_path / "provisioning" / "c.json").write_text("C")
    (tmp_path / "notes.txt").write_text("D")
    assert [text for _, text in files_in(tmp_path)] == ["A", "B"]


def test_a_folder_with_no_or_too_many_files_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"no \.json files"):
        files_in(tmp_path)
    for index in range(MOST_FILES + 1):
        (tmp_path / f"{index}.json").touch()
    with pytest.raises(InputError, match="more than 100"):
        files_in(tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        files_in(tmp_path)


@pytest.mark.parametrize(
    ("title", "uid"),
    [("specwatch", "specwatch"), ("LLM / Production", "llm-production"), ("x" * 99, "x" * 40)],
)
def test_a_new_folders_uid_follows_from_its_title(title, uid):
    assert folder_uid(title) == uid


def test_a_title_without_a_latin_letter_has_a_uid_too():
    assert len(folder_uid("推論")) == 40
    assert folder_uid("推論") != folder_uid("監視")
