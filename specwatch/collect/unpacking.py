"""Bodies of answers, unpacked within bounds."""

from __future__ import annotations

import zlib

from specwatch.collect.asking import Cause, ScrapeError
from specwatch.collect.raw_answer import TooLarge


class Unpacking:
    """The body, unpacked here: no more of it than is wanted, whatever a small packet claims to hold."""

    def __init__(self, encoding: str, most: int) -> None:
        if encoding.lower() not in ("identity", "gzip"):
            raise ScrapeError("the page is packed in another way than was asked for", Cause.PAGE)
        self._gzip = zlib.decompressobj(16 + zlib.MAX_WBITS) if encoding.lower() == "gzip" else None
        self._most = most
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take in a part of what was sent."""
        try:
            self._body += self._gzip.decompress(chunk, self._most + 1 - len(self._body)) if self._gzip else chunk
        except zlib.error:
            raise ScrapeError("the page is said to be gzip, and is not", Cause.PAGE) from None
        if len(self._body) > self._most:
            raise TooLarge

    def result(self) -> bytes:
        """All of it."""
        if self._gzip and not self._gzip.eof:
            raise ScrapeError("the page ends in the middle: it was cut off on the way", Cause.PAGE)
        return bytes(self._body)
