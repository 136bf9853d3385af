"""One answer over HTTP/1.1, read as its bytes arrive, and no further than allowed."""

from __future__ import annotations

from collections.abc import Container, Mapping

LONGEST_HEAD = 2**16
"""Bytes of status line and headers: those of vLLM are 200."""

LONGEST_SIZE = 256
"""Bytes of the line that says how long a chunk is: eight digits, and extensions that nobody sends."""

END, HEAD_END = b"\r\n", b"\r\n\r\n"

ONCE = frozenset({"content-length", "transfer-encoding", "content-encoding"})
"""Headers that say what follows: an answer with two of one kind says nothing."""


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
        self._bytes = bytearray()
        self._length: int | None = None
        self._chunks: list[bytes] | None = None
        self._in_chunks = 0
        self._keeps = False
        self.status = 0
        """0 until the head is there."""
        self.headers: Mapping[str, str] = {}
        """By their names in small letters."""
        self.body = b""
        self.complete = False
        self.reusable = False
        """Whether the connection can be asked again, once this is complete."""

    @property
    def begun(self) -> bool:
        """Whether anything has arrived."""
        return bool(self.status or self._bytes)

    def feed(self, data: bytes | memoryview) -> None:
        """Take in what has arrived."""
        self._bytes += data
        if not self.status:
            self._take_head()
        if not self.status or self.complete:
            return
        if self._chunks is not None:
            self._take_chunks(self._chunks)
        elif self._length is None:
            self._refuse_more_than(len(self._bytes))
        elif len(self._bytes) >= self._length:
            self._finish(bytes(self._bytes[: self._length]), rest=len(self._bytes) - self._length)

    def end(self) -> None:
        """The connection is closed: a body that has no length is complete by that."""
        if self.status and not self.complete and self._length is None and self._chunks is None:
            self._keeps = False
            self._finish(bytes(self._bytes), rest=0)

    def _finish(self, body: bytes, rest: int) -> None:
        self.body, self.complete = body, True
        self.reusable = self._keeps and rest == 0
        self._bytes.clear()

    def _refuse_more_than(self, size: int) -> None:
        if size > self._most:
            raise TooLarge

    def _take_head(self) -> None:
        """Read the head once it is there, and pass what a server says before it (100 Continue, 103 Early Hints)."""
        while not self.status:
            if not self._bytes.startswith(b"HTTP/1."[: len(self._bytes)]):
                raise NotHttp
            end = self._bytes.find(HEAD_END)
            if max(end, len(self._bytes) if end < 0 else 0) > LONGEST_HEAD:
                raise NotHttp
            if end < 0:
                return
            head = self._bytes[:end].decode("latin-1")
            del self._bytes[: end + len(HEAD_END)]
            self._read_head(head)

    def _read_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest.partition(" ")[0]
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(status) != 3 or not (status.isascii() and status.isdecimal()):
            raise NotHttp
        if status.startswith("1"):
            return
        self.status, self.headers = int(status), _headers(lines)
        if self.status not in self._wanted:
            self._finish(b"", rest=1)
            return
        keeps = self.headers.get("connection", "close" if version == "HTTP/1.0" else "keep-alive")
        self._keeps = keeps.lower() == "keep-alive"
        self._expect_body(self.headers.get("transfer-encoding"), self.headers.get("content-length"))

    def _expect_body(self, coding: str | None, length: str | None) -> None:
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise NotHttp
            self._chunks = []
        elif length is not None:
            self._length = _number(length, 10)
            self._refuse_more_than(self._length)

    def _take_chunks(self, chunks: list[bytes]) -> None:
        at = 0
        while (end := self._bytes.find(END, at)) >= 0:
            size, begin = _number(self._bytes[at:end].partition(b";")[0].decode("latin-1").strip(), 16), end + len(END)
            if size == 0:
                self._take_trailers(end, chunks)
                break
            self._refuse_more_than(self._in_chunks + size)
            if len(self._bytes) < begin + size + len(END):
                break
            if not self._bytes.startswith(END, begin + size):
                raise NotHttp
            chunks.append(bytes(self._bytes[begin : begin + size]))
            self._in_chunks += size
            at = begin + size + len(END)
        else:
            if len(self._bytes) - at > LONGEST_SIZE:
                raise NotHttp
        if not self.complete:
            del self._bytes[:at]

    def _take_trailers(self, end: int, chunks: list[bytes]) -> None:
        """Pass what stands behind the last chunk, up to an empty line."""
        over = self._bytes.find(HEAD_END, end)
        if over >= 0:
            self._finish(b"".join(chunks), rest=len(self._bytes) - over - len(HEAD_END))
        elif len(self._bytes) - end > LONGEST_HEAD:
            raise NotHttp


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name.strip() != name or (name in ONCE and name in headers):
            raise NotHttp
        headers[name] = value.strip()
    return headers


def _number(text: str, base: int) -> int:
    """A length; Python takes signs, spaces and underscores, and HTTP does not."""
    if not (text.isascii() and text.isalnum() and len(text) < 16):
        raise NotHttp
    try:
        return int(text, base)
    except ValueError:
        raise NotHttp from None
