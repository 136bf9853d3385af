"""One answer over HTTP/1.1, read by h11 as its bytes arrive, and no further than allowed."""

from __future__ import annotations

from collections.abc import Container, Mapping

import h11

LONGEST_HEAD = 2**16
"""Bytes of status line and headers: those of vLLM are 200."""

LONGEST_SIZE = 256
"""Bytes of what stands between chunks: a length of eight digits, and extensions that nobody sends."""

BEGIN = b"HTTP/1."

ONCE = frozenset({"content-length", "transfer-encoding", "content-encoding"})
"""Headers that say what follows: an answer with two of one kind says nothing."""

_ASKED = h11.Request(method="GET", target="/", headers=[("Host", "")])
"""What h11 takes for the question. It wants to know that one was asked; where and how is no concern of the answer."""


class NoAnswer(Exception):
    """Nothing came of a question."""


class NotHttp(NoAnswer):
    """The bytes are no answer over HTTP/1.1 as it is understood here."""


class TooLarge(Exception):
    """The body is larger than allowed."""


class RawAnswer:
    """Fed with bytes until it is ``complete``; NotHttp or TooLarge where it cannot become so."""

    def __init__(self, most: int, wanted: Container[int] = (200,)) -> None:
        """Of a body of ``most`` bytes as they are sent; it is empty where the status is not a wanted one."""
        self._most = most
        self._wanted = wanted
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)
        self._http.send(_ASKED)
        self._http.send(h11.EndOfMessage())
        self._body = bytearray()
        self.begun = False
        """Whether anything has arrived."""
        self.status = 0
        """0 until the head is there."""
        self.headers: Mapping[str, str] = {}
        """By their names in small letters."""
        self.complete = False
        self.reusable = False
        """Whether the connection can be asked again, once this is complete."""

    @property
    def body(self) -> bytes:
        """What has arrived of it."""
        return bytes(self._body)

    def feed(self, data: bytes) -> None:
        """Take in what has arrived."""
        self.begun = self.begun or bool(data)
        try:
            self._http.receive_data(data)
            self._take_in()
        except h11.RemoteProtocolError:
            raise NotHttp from None
        if not self.complete:
            self._refuse_to_wait(self._http.trailing_data[0])

    def end(self) -> None:
        """The connection is closed: a body that has no length is complete by that, and no other."""
        if self.complete:
            return
        try:
            self._http.receive_data(b"")
            self._take_in()
        except h11.RemoteProtocolError:
            return

    def _take_in(self) -> None:
        while not self.complete:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._take_head(event)
            elif isinstance(event, h11.Data):
                self._body += event.data
                self._refuse_more_than(len(self._body))
            elif isinstance(event, h11.EndOfMessage):
                self.complete = True
                self.reusable = self._http.their_state is h11.DONE and self._http.trailing_data == (b"", False)
            elif not isinstance(event, h11.InformationalResponse):
                return

    def _take_head(self, head: h11.Response) -> None:
        self.status, self.headers = head.status_code, _headers(head)
        if self.status not in self._wanted:
            self.complete = True
            return
        if "transfer-encoding" in self.headers and "content-length" in self.headers:
            raise NotHttp
        self._refuse_more_than(int(self.headers.get("content-length", "0")))

    def _refuse_to_wait(self, rest: bytes) -> None:
        """NotHttp where it can be told from what is not understood yet that it never will be."""
        if len(rest) > LONGEST_SIZE if self.status else not BEGIN.startswith(rest[: len(BEGIN)]):
            raise NotHttp

    def _refuse_more_than(self, size: int) -> None:
        if size > self._most:
            raise TooLarge


def _headers(head: h11.Response) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers):
        if name in ONCE and name in headers:
            raise NotHttp
        headers[name] = value
    return headers
