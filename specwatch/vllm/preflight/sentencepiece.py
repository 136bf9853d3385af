"""The pieces of a SentencePiece model (``tokenizer.model``), read without the library.

The file is one protobuf message; its field 1, repeated, is a piece, whose own field 1 is the text. A piece's
number is its place. Everything else, the scores among it, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _EIGHT_BYTES, _COUNTED, _FOUR_BYTES = 0, 1, 2, 5
"""Protobuf's wire types."""
_PIECE = _TEXT = 1
"""Field numbers, in the model and in a piece."""


def pieces(content: bytes) -> dict[str, int]:
    """Piece → number; ValueError where this is no SentencePiece model."""
    found: dict[str, int] = {}
    count = 0
    for number, piece in _fields(content):
        if number == _PIECE:
            text = next((value for field, value in _fields(piece) if field == _TEXT), b"")
            found.setdefault(text.decode("utf-8"), count)
            count += 1
    if not found:
        raise ValueError("no SentencePiece model: it holds no pieces")
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of every counted field of a message; other kinds are skipped."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            _, place = _varint(message, place)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            place += 8 if kind == _EIGHT_BYTES else 4
        elif kind == _COUNTED:
            length, place = _varint(message, place)
            yield number, message[place : place + length]
            place += length
        else:
            raise ValueError(f"no protobuf message: field of kind {kind}")
    if place > len(message):
        raise ValueError("cut off")


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and where the next field begins."""
    value = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError("cut off in a number")
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
