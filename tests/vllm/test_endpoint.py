"""Where a server will listen, and whether that place is free."""

from __future__ import annotations

import shlex
import socket
from pathlib import Path

import pytest

from specwatch.errors import InputError
from specwatch.vllm.endpoint import Endpoint, endpoint, listen_address, refuse_taken


def of(text: str) -> Endpoint | None:
    return endpoint(shlex.split(text))


@pytest.mark.parametrize(
    ("text", "url", "exposed"),
    [
        ("--model M", "http://127.0.0.1:8000", True),
        ("--host 0.0.0.0 --port 9000", "http://127.0.0.1:9000", True),
        ("--host :: --port 9000", "http://[::1]:9000", True),
        ("--host=127.0.0.1 --port=9000", "http://127.0.0.1:9000", False),
        ("--host ::1", "http://[::1]:8000", False),
        ("--host gpu7.example --port 80", "http://gpu7.example:80", False),
        ("--host gpu7.example --ssl-certfile c.pem --ssl-keyfile k.pem", "https://gpu7.example:8000", False),
    ],
)
def test_a_server_is_reached_where_it_binds_or_on_loopback_when_it_binds_everywhere(text, url, exposed):
    place = of(text)
    assert place is not None
    assert (place.url, place.exposed) == (url, exposed)


@pytest.mark.parametrize("text", ["--uds /run/vllm.sock", "--headless --port 1"])
def test_a_server_without_a_tcp_port_has_no_endpoint(text):
    assert of(text) is None


def test_a_config_file_gives_host_and_port_and_the_command_line_wins(tmp_path: Path):
    file = tmp_path / "serve.yaml"
    file.write_text("host: 127.0.0.1\nport: 9001\n")
    assert of(f"--config {file}") == Endpoint("127.0.0.1", 9001)
    assert of(f"--config {file} --port 9002") == Endpoint("127.0.0.1", 9002)


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8e3", "²"])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(InputError, match="a port from 1 to 65535 is needed"):
        of(f"--port={port}")


@pytest.mark.parametrize("text", ["9108", ":9108", "127.0.0.1", "127.0.0.1:x"])
def test_a_listen_address_needs_host_and_port(text):
    with pytest.raises(InputError, match="--sidecar-listen"):
        listen_address(text, "--sidecar-listen")


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0", ""])
def test_a_taken_port_is_refused_with_the_remedy(bind):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(InputError, match=r"--port: nothing can listen on port \d+ of .*in use\. Move\."):
            refuse_taken(Endpoint(bind, other.getsockname()[1]), "--port", "Move.")


def test_a_free_port_is_not_refused_and_stays_free():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    refuse_taken(Endpoint("127.0.0.1", port), "--port", "Move.")
    refuse_taken(Endpoint("127.0.0.1", port), "--port", "Move.")


@pytest.mark.parametrize("bind", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_refused(bind):
    with pytest.raises(InputError, match="--port: "):
        refuse_taken(Endpoint(bind, 8000), "--port", "Move.")


def test_a_place_where_nobody_answers_is_not_healthy():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert not Endpoint("127.0.0.1", silent.getsockname()[1]).healthy(0.1)
