"""Whether a runbook's address can be right, as far as the files beside the rules tell. Nothing is fetched."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST_PAGE = 2**20
"""Bytes of a page in which headings are looked for."""
MOST_PARENTS = 10
"""Folders above the rules in which a page is looked for, up to the one that holds the repository."""

_IN_REPOSITORY = re.compile(r"/(?:-/)?(?:blob|tree|raw|src)/[^/]+/(?P<page>.+)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_NAMED = re.compile(r"<[^>]{0,200}\b(?:id|name)=[\"']([^\"'>]{1,200})[\"']|\{#([\w-]{1,200})\}")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[a-zA-Z]{2,}(?::\d+)?(?:/|$)")


def problem_of(address: str, file: str) -> str:
    """What is wrong with an address in ``file``, "" where nothing is or where it cannot be told offline."""
    address = address.strip()
    page, _, anchor = address.partition("#")
    if "{{" in page or not address:
        return ""
    try:
        parts = urlsplit(page)
    except ValueError as problem:
        return f"{address} is no address: {problem}"
    if parts.scheme or parts.netloc:
        found = _IN_REPOSITORY.search(parts.path)
        local = _find(unquote(found["page"]), Path(file)) if found else None
        return _anchor_problem(local, anchor) if local else ""
    local = _find(unquote(parts.path), Path(file)) if parts.path else None
    if local:
        return _anchor_problem(local, anchor)
    if _HOST.match(address) and not address.lower().endswith((".md", ".html")):
        return f"{address} lacks https://, so it is taken for a file"
    return f"{address} is no address, and there is no such file beside the rules or above"


def _find(page: str, file: Path) -> Path | None:
    """The page in the folder of the rules or one above it, up to the repository's own."""
    relative = page.lstrip("/")
    for folder in list(file.absolute().parents)[:MOST_PARENTS]:
        try:
            if (folder / relative).exists():
                return folder / relative
            if (folder / ".git").exists():
                return None
        except (OSError, ValueError):
            return None
    return None


def _anchor_problem(page: Path, anchor: str) -> str:
    if not anchor or "{{" in anchor or page.suffix != ".md" or not page.is_file():
        return ""
    try:
        with page.open("rb") as opened:
            text = opened.read(LARGEST_PAGE).decode("utf-8", "replace")
    except OSError:
        return ""
    return "" if unquote(anchor) in anchors(text) else f"{page.name} has no heading for #{anchor}"


def anchors(text: str) -> set[str]:
    """Anchors of a Markdown page: of its headings, as GitHub and GitLab make them, and the ones that are written."""
    found: set[str] = {word for pair in _NAMED.findall(text) for word in pair if word}
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        name, number = slug, 0
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found
