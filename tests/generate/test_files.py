from __future__ import annotations

from pathlib import Path

import pytest

from specwatch.errors import SpecwatchError
from specwatch.generate.files import differing, write_all, write_or_check


def test_files_are_written_into_folders_that_are_made_for_them(tmp_path: Path):
    written = write_all(tmp_path / "new", {"b.yml": "two\n", "a/b.json": "one\n"})
    assert written == [tmp_path / "new/a/b.json", tmp_path / "new/b.yml"]
    assert written[0].read_bytes() == b"one\n"
    assert sorted(path.name for path in (tmp_path / "new").rglob("*") if path.is_file()) == ["b.json", "b.yml"]


def test_nothing_differs_after_writing(tmp_path: Path):
    files = {"a.yml": "eins: ä\n", "b/c.json": "{}\n"}
    write_all(tmp_path, files)
    assert differing(tmp_path, files) == []


def test_a_missing_file_and_a_changed_file_differ(tmp_path: Path):
    write_all(tmp_path, {"changed": "old\n", "same": "x\n"})
    assert differing(tmp_path, {"same": "x\n", "changed": "new\n", "missing": "y\n"}) == ["changed", "missing"]


def test_a_change_of_line_ends_differs(tmp_path: Path):
    (tmp_path / "rules.yml").write_bytes(b"a\r\n")
    assert differing(tmp_path, {"rules.yml": "a\n"}) == ["rules.yml"]


def test_a_folder_that_is_a_file_gives_one_clear_message(tmp_path: Path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SpecwatchError, match=r"cannot write into .*taken: it is no folder; .*--output"):
        write_all(tmp_path / "taken", {"a": "x\n"})


def test_a_failure_leaves_every_old_file_as_it_was(tmp_path: Path):
    write_all(tmp_path, {"a": "old\n"})
    (tmp_path / "b").write_text("a file where a folder is needed")
    with pytest.raises(SpecwatchError):
        write_all(tmp_path, {"a": "new\n", "b/c": "x\n"})
    assert (tmp_path / "a").read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_what_was_written_is_said_and_a_check_of_it_writes_nothing(tmp_path: Path):
    said: list[str] = []
    write_or_check(tmp_path, {"a.txt": "a"}, check=False, say=said.append)
    before = (tmp_path / "a.txt").stat().st_mtime_ns
    write_or_check(tmp_path, {"a.txt": "a"}, check=True, say=said.append)
    assert said == [f"wrote {tmp_path}/a.txt", f"{tmp_path} is what these options generate"]
    assert (tmp_path / "a.txt").stat().st_mtime_ns == before


def test_a_check_names_what_differs_and_the_way_out(tmp_path: Path):
    with pytest.raises(SpecwatchError, match=r"a\.txt.*without --check"):
        write_or_check(tmp_path, {"a.txt": "a"}, check=True, say=print)
    assert list(tmp_path.iterdir()) == []
