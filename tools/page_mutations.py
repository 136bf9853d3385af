"""What may become of a metrics page on its way, or be made of it by whoever means harm: one change at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

Mutation = Callable[[bytes, random.Random], bytes]
"""A page, changed."""

NUMBERS = (
    *("0", "-1", "-0", "1e308", "1e309", "-1e400", "5e-324", "1e22", "9007199254740993", "0.1", ".5", "5.", "+3"),
    *("NaN", "nan", "-NaN", "Inf", "+Inf", "-Inf", "infinity", "1_000", "0x10", "1e", "e5", "--1", "", ".", "1,5"),
    *("\uff19", "٣", "1 1700000000000", "1 -5", "1 1e3", "1 x", '1 # {trace_id="a"} 1', "1\u00a0", "1\x1c2"),
    "9" * 400,
)
LABELS = (
    *(r"a\nb", r"a\"b", r"a\\", r"a\q", "a\u2028b", "a\x85b", "a\rb", "", "💥", "a}b", "a{b", "a,b=c", "a b", "a#b"),
    *("0", "1", "7", "63", "64", "-1", "1e3", "٣", "²", "00", " 1", "+Inf", "nan", "9" * 50, "x" * 100_000),
)


def flip(page: bytes, source: random.Random) -> bytes:
    """Some bytes become others."""
    changed = bytearray(page)
    for _ in range(source.choice((1, 1, 1, 5, 50))):
        changed[source.randrange(len(changed))] = source.randrange(256)
    return bytes(changed)


def cut(page: bytes, source: random.Random) -> bytes:
    """The page ends somewhere, at a line's end or within one."""
    kept = page[: source.randrange(1, len(page) + 1)]
    return kept if source.random() < 0.5 else kept[: kept.rfind(b"\n") + 1] or page


def excise(page: bytes, source: random.Random) -> bytes:
    """A piece is missing."""
    first = source.randrange(len(page))
    return page[:first] + page[first + source.choice((1, 3, 40, 2000)) :]


def insert(page: bytes, source: random.Random) -> bytes:
    """Something comes between."""
    what = source.choice(
        (b"\n", b"\r\n", b" ", b"\t", b'"', b"\\", b"{", b"}", b"#", b"# EOF\n", b"# TYPE vllm:x counter\n", b"\x00")
    )
    at = source.randrange(len(page))
    return page[:at] + what + page[at:]


def _by_line(change: Callable[[list[bytes], random.Random], None]) -> Mutation:
    def mutation(page: bytes, source: random.Random) -> bytes:
        lines = page.split(b"\n")
        change(lines, source)
        return b"\n".join(lines)

    return mutation


def _drop(lines: list[bytes], source: random.Random) -> None:
    del lines[source.randrange(len(lines))]


def _double(lines: list[bytes], source: random.Random) -> None:
    lines.insert(source.randrange(len(lines)), source.choice(lines))


def _shuffle(lines: list[bytes], source: random.Random) -> None:
    last = lines.pop()
    source.shuffle(lines)
    lines.append(last)


def _windows_ends(lines: list[bytes], source: random.Random) -> None:
    lines[:-1] = [line + b"\r" for line in lines[:-1]]


def _comment_out(lines: list[bytes], source: random.Random) -> None:
    at = source.randrange(len(lines))
    lines[at] = b"#" + lines[at]


def _value(lines: list[bytes], source: random.Random) -> None:
    at = source.randrange(len(lines))
    series, space, _ = lines[at].rpartition(b" ")
    lines[at] = series + space + source.choice(NUMBERS).encode()


def _all_values(lines: list[bytes], source: random.Random) -> None:
    value = source.choice(NUMBERS).encode()
    for at, line in enumerate(lines):
        series, space, _ = line.rpartition(b" ")
        if space and not line.startswith(b"#"):
            lines[at] = series + space + value


def _label(lines: list[bytes], source: random.Random) -> None:
    at = source.randrange(len(lines))
    parts = lines[at].split(b'"')
    if len(parts) >= 3:
        parts[source.randrange(1, len(parts) - 1, 2)] = source.choice(LABELS).encode()
        lines[at] = b'"'.join(parts)


def _label_everywhere(lines: list[bytes], source: random.Random) -> None:
    name, value = source.choice((b'engine="', b'model_name="', b'position="', b'le="')), source.choice(LABELS).encode()
    for at, line in enumerate(lines):
        before, found, rest = line.partition(name)
        if found:
            lines[at] = before + found + value + b'"' + rest.partition(b'"')[2]


def _more_engines(lines: list[bytes], source: random.Random) -> None:
    own = [line for line in lines if b'engine="0"' in line]
    for number in range(1, source.choice((2, 3, 20))):
        lines[-1:-1] = [line.replace(b'engine="0"', f'engine="{number}"'.encode()) for line in own]


def _timestamps(lines: list[bytes], source: random.Random) -> None:
    lines[:] = [line + b" 1700000000000" if line and not line.startswith(b"#") else line for line in lines]


def _open_metrics(lines: list[bytes], source: random.Random) -> None:
    lines[:] = [line + b' # {trace_id="a"} 0.5' if b"_bucket{" in line else line for line in lines]
    lines.insert(-1, b"# EOF")


MUTATIONS: Mapping[str, Mutation] = {
    "bytes flipped": flip,
    "cut off": cut,
    "a piece missing": excise,
    "something inserted": insert,
    "a line missing": _by_line(_drop),
    "a line twice": _by_line(_double),
    "lines in another order": _by_line(_shuffle),
    "ends of lines as on Windows": _by_line(_windows_ends),
    "a line commented out": _by_line(_comment_out),
    "another value": _by_line(_value),
    "one value everywhere": _by_line(_all_values),
    "another label": _by_line(_label),
    "one label everywhere": _by_line(_label_everywhere),
    "more engines": _by_line(_more_engines),
    "times behind the values": _by_line(_timestamps),
    "OpenMetrics": _by_line(_open_metrics),
}


def mutated(page: bytes, source: random.Random) -> bytes:
    """The page after one change, or a few."""
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        page = source.choice(list(MUTATIONS.values()))(page, source) or b"\n"
    return page
