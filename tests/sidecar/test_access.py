from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.sidecar.access import Access, Role, TokenFile, digested, from_config, presented

READER = "reader-0123456789abcdef"
ADMIN = "admin-0123456789abcdef"
OTHER = "other-0123456789abcdef"


def token_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def basic(password: str, user: str = "") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access(
        read=TokenFile(token_file(tmp_path / "read", READER), "--read-token-file"),
        admin=TokenFile(token_file(tmp_path / "admin", ADMIN), "--admin-token-file"),
    )


@pytest.mark.parametrize(
    ("header", "role"),
    [
        (f"Bearer {READER}", Role.READ),
        (f"bearer  {READER} ", Role.READ),
        (f"Bearer {ADMIN}", Role.ADMIN),
        (basic(READER), Role.READ),
        (basic(ADMIN, "anna"), Role.ADMIN),
        (basic("", ADMIN), None),
        (basic(f"{ADMIN}:"), None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        (f"Bearer {READER[:-1]}", None),
        (f"Bearer {READER}x", None),
        (f"Bearer {READER}\n{ADMIN}", None),
        (f"Token {ADMIN}", None),
        (ADMIN, None),
        ("Basic ", None),
        ("Basic \xff", None),
        ("Basic AAAA====", None),
        ("Basic " + base64.b64encode(b"\xff:\xff").decode(), None),
        ("Bearer " + "x" * 100_000, None),
    ],
)
def test_a_header_gives_the_role_of_its_token_and_no_other(access, header, role):
    assert access.role(header) is role


def test_without_a_file_everybody_is_admin():
    assert Access().role("") is Role.ADMIN
    assert not Access().asks


def test_a_token_in_both_files_is_an_admins(tmp_path):
    file = TokenFile(token_file(tmp_path / "both", READER), "--x")
    assert Access(read=file, admin=file).role(f"Bearer {READER}") is Role.ADMIN


def test_with_readers_alone_nobody_is_admin(tmp_path):
    only = Access(read=TokenFile(token_file(tmp_path / "read", READER), "--x"))
    assert (only.role(f"Bearer {READER}"), only.role(f"Bearer {ADMIN}")) == (Role.READ, None)


def test_several_tokens_are_good_at_a_time_and_comments_are_none(tmp_path):
    file = TokenFile(token_file(tmp_path / "t", f"# old, until June\n{READER}\n\n  {OTHER}  \r\n# new\n"), "--x")
    assert [file.holds(digested(token)) for token in (READER, OTHER, "# new", "")] == [True, True, False, False]


def test_a_changed_file_is_read_anew_and_the_old_token_is_no_longer_good(tmp_path, caplog):
    path = token_file(tmp_path / "t", READER)
    file = TokenFile(path, "--read-token-file")
    token_file(tmp_path / "new", f"{OTHER}\n").replace(path)
    with caplog.at_level(logging.INFO):
        assert [file.holds(digested(token)) for token in (READER, OTHER)] == [False, True]
    assert f"{path}: read anew" in caplog.text
    assert OTHER not in caplog.text


@pytest.mark.parametrize("change", ["gone", "empty", "nonsense"])
def test_a_file_that_cannot_be_used_any_more_lets_nobody_in_until_it_can(tmp_path, caplog, change):
    path = token_file(tmp_path / "t", READER)
    file = TokenFile(path, "--read-token-file")
    path.unlink()
    if change != "gone":
        token_file(path, {"empty": "", "nonsense": "short"}[change])
    assert not file.holds(digested(READER))
    assert not file.holds(digested(READER))
    assert caplog.text.count("none of its tokens is accepted") == 1
    token_file(tmp_path / "again", f"{READER}\n# mended\n").replace(path)
    assert file.holds(digested(READER))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "holds 0"),
        ("# nothing\n", "holds 0"),
        ("fifteen-chars--", "is no token"),
        ("two words of a secret", "is no token"),
        ("secret-with-ümlaut", "no plain text"),
        ("secret\x00with-a-nul-in-it", "is no token"),
        ("x" * 513, "is no token"),
        (f"{READER}\n" * 101, "holds 101"),
        ("x" * 70_000, "64 KiB"),
    ],
)
def test_a_file_without_usable_tokens_is_refused_and_none_of_it_is_told(tmp_path, text, what):
    with pytest.raises(InputError) as caught:
        TokenFile(token_file(tmp_path / "t", text), "--read-token-file")
    said = str(caught.value)
    assert said.startswith(f"--read-token-file {tmp_path}/t: ")
    assert what in said
    assert "secret" not in said


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"--admin-token-file .*/none: no such file or directory"):
        TokenFile(tmp_path / "none", "--admin-token-file")
    with pytest.raises(InputError, match="is a directory"):
        TokenFile(tmp_path, "--admin-token-file")


def test_a_file_that_every_user_can_read_is_warned_of(tmp_path, caplog):
    path = token_file(tmp_path / "t", READER)
    path.chmod(0o644)
    TokenFile(path, "--x")
    assert f"chmod 600 {path}" in caplog.text
    assert READER not in caplog.text


def test_no_token_is_kept_in_memory(tmp_path):
    file = TokenFile(token_file(tmp_path / "t", READER), "--x")
    assert READER not in repr(vars(file))


def test_what_is_presented_never_raises():
    for header in ("Basic", "Basic =", "Basic %", "\x00", "Bearer \xff"):
        digested(presented(header))


def configured(tmp_path: Path, **entries: object) -> SidecarConfig:
    return SidecarConfig.model_validate({"listen": "0.0.0.0:9108", **entries})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_nothing_needs_to_ask(tmp_path, host):
    assert not from_config(configured(tmp_path), host).asks


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gpu.example.com"])
def test_beyond_loopback_something_has_to_ask_or_it_is_said_that_nothing_does(tmp_path, host):
    path = token_file(tmp_path / "t", READER)
    with pytest.raises(InputError, match="can be reached from other machines"):
        from_config(configured(tmp_path), host)
    assert not from_config(configured(tmp_path, insecure=True), host).asks
    assert from_config(configured(tmp_path, read_token_file=path), host).asks
    assert from_config(configured(tmp_path, admin_token_file=path), host).asks
    assert not from_config(configured(tmp_path, client_ca_file=path), host).asks


def test_insecure_opens_nothing_that_tokens_close(tmp_path):
    path = token_file(tmp_path / "t", READER)
    assert from_config(configured(tmp_path, insecure=True, read_token_file=path), "0.0.0.0").role("") is None


def test_tokens_that_travel_unencrypted_are_warned_of(tmp_path, caplog):
    path = token_file(tmp_path / "t", READER)
    from_config(configured(tmp_path, read_token_file=path), "127.0.0.1")
    from_config(configured(tmp_path, read_token_file=path, tls_cert_file=path), "0.0.0.0")
    assert caplog.text == ""
    from_config(configured(tmp_path, read_token_file=path), "0.0.0.0")
    assert "unencrypted" in caplog.text


def test_opening_what_is_open_is_a_mistake(tmp_path):
    with pytest.raises(InputError, match="--open-metrics"):
        from_config(configured(tmp_path, insecure=True, open_metrics=True), "0.0.0.0")
