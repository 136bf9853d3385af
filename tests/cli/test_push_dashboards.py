from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specwatch.cli import specwatch
from specwatch.errors import SpecwatchError
from tests.support.grafana import TOKEN, FakeGrafana, grafana
from tests.support.http import answering

MINE = ("mine-a", "mine-b")


@pytest.fixture
def fake() -> Iterator[FakeGrafana]:
    with grafana() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A token, and two dashboards."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    for uid in MINE:
        write(tmp_path, uid)
    return tmp_path


def write(folder: Path, uid: str, title: str | None = None) -> None:
    (folder / f"{uid}.json").write_text(json.dumps({"uid": uid, "title": title or uid, "panels": []}))


def push(url: str, folder: Path, *options: str) -> Result:
    words = ["push-dashboards", str(folder), "--url", url, "--token-file", str(folder / "token"), *options]
    return CliRunner().invoke(specwatch, words)


def problem(result: Result) -> str:
    assert isinstance(result.exception, SpecwatchError), result.output
    return str(result.exception)


def titles(fake: FakeGrafana) -> dict[str, str]:
    return {uid: versions[-1].dashboard["title"] for uid, versions in fake.dashboards.items()}


def test_the_folder_is_made_and_every_dashboard_lies_in_it(fake, folder):
    result = push(fake.url, folder)
    assert result.exit_code == 0, result.exception
    assert result.output.splitlines() == [f"{uid}: pushed, {fake.url}/d/{uid}" for uid in MINE]
    assert fake.folders == {"specwatch": "specwatch"}
    assert {versions[-1].folder_uid for versions in fake.dashboards.values()} == {"specwatch"}
    assert titles(fake) == {uid: uid for uid in MINE}


def test_without_a_folder_the_generated_dashboards_are_pushed(fake, folder):
    from specwatch.generate.dashboards import dashboard_files

    words = ["push-dashboards", "--url", fake.url, "--token-file", str(folder / "token")]
    assert CliRunner().invoke(specwatch, words).exit_code == 0
    generated = [json.loads(text) for name, text in dashboard_files().items() if name.endswith(".json")]
    assert fake.dashboards.keys() == {dashboard["uid"] for dashboard in generated}


@pytest.mark.parametrize("nested", [True, False])
def test_a_second_push_changes_nothing(fake, folder, nested):
    fake.nested_versions = nested
    push(fake.url, folder)
    before = len(fake.written)
    result = push(fake.url, folder)
    assert result.output.splitlines() == [f"{uid}: unchanged" for uid in MINE]
    assert len(fake.written) == before


@pytest.mark.parametrize("nested", [True, False])
def test_a_newer_dashboard_replaces_the_one_that_was_pushed_before(fake, folder, nested):
    fake.nested_versions = nested
    push(fake.url, folder)
    write(folder, "mine-a", "newer")
    result = push(fake.url, folder)
    assert result.exit_code == 0, result.exception
    assert titles(fake) == {"mine-a": "newer", "mine-b": "mine-b"}
    assert len(fake.dashboards["mine-b"]) == 1


def test_what_somebody_edited_in_grafana_stays_and_nothing_else_is_pushed(fake, folder):
    push(fake.url, folder)
    fake.edit("mine-a", title="theirs")
    for uid in MINE:
        write(folder, uid, "newer")
    words = problem(push(fake.url, folder))
    assert "mine-a: version 2 was saved by somebody else" in words
    assert "--overwrite" in words
    assert titles(fake) == {"mine-a": "theirs", "mine-b": "mine-b"}


def test_an_edit_is_overwritten_when_asked_to(fake, folder):
    push(fake.url, folder)
    fake.edit("mine-a", title="theirs")
    assert push(fake.url, folder, "--overwrite").exit_code == 0
    assert titles(fake)["mine-a"] == "mine-a"
    assert push(fake.url, folder).output.splitlines() == [f"{uid}: unchanged" for uid in MINE]


def test_a_dashboard_that_was_moved_is_moved_back_only_when_asked_to(fake, folder):
    push(fake.url, folder, "--folder", "LLM")
    words = problem(push(fake.url, folder))
    assert "mine-a: lies in LLM" in words
    assert fake.folders == {"llm": "LLM"}
    assert push(fake.url, folder, "--overwrite").exit_code == 0
    assert fake.dashboards["mine-a"][-1].folder_uid == "specwatch"


def test_a_folder_of_that_title_is_taken_whatever_its_uid(fake, folder):
    fake.folders = {"dezk2": "specwatch", "other": "specwatch (old)"}
    push(fake.url, folder)
    assert fake.dashboards["mine-a"][-1].folder_uid == "dezk2"
    assert "/api/folders" not in fake.written


def test_two_folders_of_one_title_are_refused(fake, folder):
    fake.folders = {"a": "specwatch", "b": "specwatch"}
    assert "2 folders are titled specwatch" in problem(push(fake.url, folder))
    assert fake.written == []


def test_a_dry_run_says_what_would_change_and_changes_nothing(fake, folder):
    first = push(fake.url, folder, "--dry-run")
    assert first.output.splitlines()[0] == "folder specwatch: would be made"
    assert "mine-a: new, would be pushed" in first.output
    push(fake.url, folder)
    write(folder, "mine-a", "newer")
    before = len(fake.written)
    second = push(fake.url, folder, "--dry-run")
    assert second.exit_code == 0
    assert '-  "title": "mine-a",' in second.output
    assert '+  "title": "newer",' in second.output
    assert "mine-b: unchanged" in second.output
    assert len(fake.written) == before


def test_a_dry_run_fails_where_a_push_would_be_refused(fake, folder):
    push(fake.url, folder)
    fake.edit("mine-a", title="theirs\x1b]0;owned\x07")
    result = push(fake.url, folder, "--dry-run")
    assert "a push would be refused" in problem(result)
    assert "theirs" in result.output
    assert "\x1b" not in result.output
    assert push(fake.url, folder, "--dry-run", "--overwrite").exit_code == 0


def test_a_token_that_is_refused_is_said_and_not_shown(fake, folder):
    (folder / "token").write_text("glsa_wrong")
    words = problem(push(fake.url, folder))
    assert "refuses the token: Invalid API key" in words
    assert "glsa_wrong" not in words
    assert fake.written == []


def test_a_folder_that_may_not_be_written_is_found_before_anything_is_pushed(fake, folder):
    fake.folders = {"specwatch": "specwatch"}
    fake.may_write = False
    assert "may not save into the folder 'specwatch'" in problem(push(fake.url, folder))
    assert fake.written == []


def test_a_token_that_may_not_make_the_folder_leaves_nothing_behind(fake, folder):
    fake.may_write = False
    words = problem(push(fake.url, folder))
    assert "POST /api/folders" in words
    assert "Editor" in words
    assert (fake.folders, fake.dashboards) == ({}, {})


def test_a_token_that_may_not_read_dashboards_is_said(fake, folder):
    fake.may_read = False
    assert "the token may not GET /api/dashboards/uid/mine-a" in problem(push(fake.url, folder))
    assert fake.written == []


def test_a_provisioned_dashboard_is_left_to_its_file(fake, folder):
    push(fake.url, folder)
    fake.provisioned = {"mine-b"}
    for uid in MINE:
        write(folder, uid, "newer")
    assert "mine-b: Grafana has it from a provisioning file" in problem(push(fake.url, folder, "--overwrite"))
    assert titles(fake) == {uid: uid for uid in MINE}


def test_an_edit_between_look_and_push_is_kept_and_what_was_pushed_is_said(fake, folder):
    push(fake.url, folder)
    for uid in MINE:
        write(folder, uid, "newer")
    fake.before_save = lambda uid: fake.edit(uid, title="theirs") if uid == "mine-b" else None
    words = problem(push(fake.url, folder, "--overwrite"))
    assert "mine-b: somebody saved it in Grafana meanwhile" in words
    assert "pushed before: mine-a; not pushed: mine-b" in words
    assert titles(fake) == {"mine-a": "newer", "mine-b": "theirs"}


def test_another_dashboard_of_the_same_title_is_never_replaced(fake, folder):
    fake.unnamed = {"mine-a"}
    words = problem(push(fake.url, folder, "--overwrite"))
    assert "another dashboard of the folder has the title mine-a" in words
    assert "pushed before: none; not pushed: mine-a, mine-b" in words
    assert fake.dashboards == {}


def test_a_grafana_that_is_away_is_said_in_a_few_words(folder):
    words = problem(push("http://127.0.0.1:1", folder))
    assert words == "cannot reach Grafana at http://127.0.0.1:1: connection refused"


async def test_a_server_that_is_no_grafana_is_told_apart(folder):
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n<html>Hi</html>"
    async with answering(page) as url:
        assert "is no Grafana" in problem(await asyncio.to_thread(push, url, folder))
