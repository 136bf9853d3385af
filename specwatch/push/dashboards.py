"""Which dashboards a Grafana lacks, has, or holds in a form that somebody changed there, and bringing them there.

Beside every version that it saves, specwatch writes a message with a digest of what it saved. When the newest
version carries another message, somebody else saved it: that is an edit, and it is not overwritten unasked.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from specwatch import __version__
from specwatch.errors import InputError, SpecwatchError
from specwatch.push.grafana import Folder, Grafana, Refused, Stored, printable

LARGEST_FILE = 4 * 2**20
"""Bytes of a dashboard's file: those of this project have about 0.1 MB."""

MOST_FILES = 100
"""Dashboards pushed at once."""

_UID = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""What Grafana takes for a uid."""

_MESSAGE = re.compile(r"specwatch \S+, sha256 ([0-9a-f]{64})")

_GRAFANAS_OWN = frozenset(["id", "version"])
"""Keys that Grafana sets and that say nothing about what a dashboard shows."""


class State(Enum):
    """How a dashboard in Grafana compares with the one to be pushed."""

    NEW = "new"
    UNCHANGED = "unchanged"
    CHANGED = "changed"
    EDITED = "edited in Grafana"
    ELSEWHERE = "in another folder"
    LOCKED = "locked"


PUSHED = frozenset([State.NEW, State.CHANGED])
"""What is pushed unasked."""

ASKED = frozenset([State.EDITED, State.ELSEWHERE])
"""What is pushed with ``--overwrite`` only."""


@dataclass(frozen=True)
class Item:
    """A dashboard to be pushed, what Grafana holds in its place, and how the two compare."""

    wanted: Mapping[str, Any]
    stored: Stored | None
    state: State

    @property
    def uid(self) -> str:
        """By which Grafana knows the dashboard."""
        return str(self.wanted["uid"])

    @property
    def difference(self) -> str:
        """What a push would change, as a unified diff; empty for a new dashboard."""
        if self.stored is None:
            return ""
        before, after = (_text(content(dashboard)).splitlines() for dashboard in (self.stored.dashboard, self.wanted))
        lines = difflib.unified_diff(before, after, f"{self.uid} in Grafana", f"{self.uid} to be pushed", "", "", 2, "")
        return "\n".join("".join(sign if sign.isprintable() else "?" for sign in line) for line in lines)

    @property
    def reason(self) -> str:
        """Why it is not pushed unasked, and what to do; empty where it is."""
        if self.stored is None or self.state not in {*ASKED, State.LOCKED}:
            return ""
        if self.state is State.EDITED:
            return (
                f"{self.uid}: version {self.stored.version} was saved by somebody else; look at it with --dry-run, "
                "then give up their changes with --overwrite, or save theirs under another name"
            )
        if self.state is State.ELSEWHERE:
            lies_in = printable(self.stored.folder_title or self.stored.folder_uid or "Grafana's root folder")
            return f"{self.uid}: lies in {lies_in}; name that with --folder, or move the dashboard with --overwrite"
        if self.stored.provisioned:
            return f"{self.uid}: Grafana has it from a provisioning file; change that file, or remove it there first"
        return f"{self.uid}: the token may see it and not save it; its service account needs the role Editor"


@dataclass(frozen=True)
class Plan:
    """What a push would do, found out without changing anything."""

    folder: Folder
    folder_exists: bool
    items: tuple[Item, ...]

    def refusals(self, overwrite: bool) -> list[str]:
        """Why nothing may be pushed; empty where everything may."""
        refused = {State.LOCKED} if overwrite else {*ASKED, State.LOCKED}
        return [item.reason for item in self.items if item.state in refused]

    def pushes(self, overwrite: bool) -> list[Item]:
        """Those to be pushed, in order."""
        states = PUSHED | ASKED if overwrite else PUSHED
        return [item for item in self.items if item.state in states]


def read_dashboards(files: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Dashboards from names and texts of their files; InputError where one is none or two share a uid."""
    seen: dict[str, str] = {}
    dashboards = []
    for name, text in files:
        dashboard = _dashboard(name, text)
        other = seen.setdefault(dashboard["uid"], name)
        if other != name:
            raise InputError(f"{name} and {other} both have the uid {dashboard['uid']}: push one of them")
        dashboards.append(dashboard)
    return dashboards


def files_in(folder: Path) -> list[tuple[str, str]]:
    """Names and texts of the .json files right in a folder, sorted; InputError where there are none."""
    paths = sorted(folder.glob("*.json"))
    if not 0 < len(paths) <= MOST_FILES:
        count = "more than " + str(MOST_FILES) if paths else "no"
        raise InputError(f"{folder} holds {count} .json files; name the folder that gen-dashboards wrote")
    try:
        too_large = next((path for path in paths if path.stat().st_size > LARGEST_FILE), None)
        if too_large:
            raise InputError(f"{too_large} has more than {LARGEST_FILE >> 20} MiB: no dashboard of this project")
        return [(str(path), path.read_text(encoding="utf-8")) for path in paths]
    except UnicodeDecodeError:
        raise InputError(f"{folder}: a .json file holds no UTF-8 text") from None
    except OSError as problem:
        raise InputError(f"cannot read {problem.filename or folder}: {problem.strerror or problem}") from None


def plan(grafana: Grafana, folder_title: str, dashboards: Sequence[Mapping[str, Any]]) -> Plan:
    """Compare with what Grafana holds, changing nothing."""
    grafana.check()
    found = _find(grafana, folder_title)
    if found and not found.writable:
        raise SpecwatchError(
            f"the token may not save into the folder {folder_title!r}; its service account needs the role Editor, or "
            "the permission to edit this folder"
        )
    folder = found or Folder(folder_uid(folder_title), folder_title)
    items = []
    for wanted in dashboards:
        stored = grafana.dashboard(wanted["uid"])
        message = grafana.message(wanted["uid"], stored.version) if stored else None
        items.append(Item(wanted, stored, judge(wanted, stored, message, folder.uid)))
    return Plan(folder, found is not None, tuple(items))


def judge(wanted: Mapping[str, Any], stored: Stored | None, message: str | None, folder: str) -> State:
    """How the stored dashboard, whose newest version has ``message``, compares with the one wanted in ``folder``."""
    if stored is None:
        return State.NEW
    ours = _MESSAGE.fullmatch(message or "")
    # Grafana may write a dashboard in other words than it was given: what was pushed is then known by its digest.
    same = content(stored.dashboard) == content(wanted) or (ours is not None and ours[1] == digest(wanted))
    if same and stored.folder_uid == folder:
        return State.UNCHANGED
    if stored.provisioned or not stored.writable:
        return State.LOCKED
    if not same and ours is None:
        return State.EDITED
    return State.CHANGED if stored.folder_uid == folder else State.ELSEWHERE


def carry_out(grafana: Grafana, planned: Plan, overwrite: bool, pushed: Callable[[Item], None]) -> None:
    """Make the folder where it is missing and push, calling ``pushed`` after each.

    Raises SpecwatchError before anything is changed where a dashboard must not be overwritten, and with what was
    done by then where Grafana refuses one on the way.
    """
    refusals = planned.refusals(overwrite)
    if refusals:
        raise SpecwatchError("nothing was pushed:\n  " + "\n  ".join(refusals))
    items = planned.pushes(overwrite)
    if items and not planned.folder_exists:
        grafana.create_folder(planned.folder)
    done: list[str] = []
    for item in items:
        try:
            grafana.save(_to_save(item), planned.folder.uid, f"specwatch {__version__}, sha256 {digest(item.wanted)}")
        except SpecwatchError as problem:
            left = [left.uid for left in items[len(done) :]]
            raise SpecwatchError(
                f"{_explained(problem, item)}\n  pushed before: {', '.join(done) or 'none'}; "
                f"not pushed: {', '.join(left)}; run it again when this is mended"
            ) from None
        done.append(item.uid)
        pushed(item)


def content(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """A dashboard without the keys that Grafana sets."""
    return {key: value for key, value in dashboard.items() if key not in _GRAFANAS_OWN}


def digest(dashboard: Mapping[str, Any]) -> str:
    """SHA-256 of a dashboard's content, in hexadecimal."""
    return hashlib.sha256(_text(content(dashboard)).encode()).hexdigest()


def folder_uid(title: str) -> str:
    """The uid of a folder that is to be made: from its title, so that two pushes at once cannot make two of them."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-")
    return words or hashlib.sha256(title.encode()).hexdigest()[:40]


def _find(grafana: Grafana, title: str) -> Folder | None:
    # By title first: a folder of this title is what the user sees, whatever its uid is.
    titled = grafana.folders_titled(title)
    if len(titled) > 1:
        raise InputError(f"{len(titled)} folders are titled {printable(title)}: rename one in Grafana, or take another")
    return titled[0] if titled else grafana.folder(folder_uid(title))


def _dashboard(name: str, text: str) -> dict[str, Any]:
    try:
        dashboard = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{name} holds no JSON") from None
    if not isinstance(dashboard, dict) or not isinstance(dashboard.get("panels"), list):
        raise InputError(f"{name} holds no Grafana dashboard: an object with panels is needed")
    if not isinstance(dashboard.get("uid"), str) or not _UID.fullmatch(dashboard["uid"]):
        raise InputError(f"{name}: uid must be 1 to 40 letters, digits, '-' or '_', so that a second push finds it")
    if not isinstance(dashboard.get("title"), str) or not dashboard["title"].strip():
        raise InputError(f"{name}: the dashboard has no title")
    return dashboard


def _to_save(item: Item) -> dict[str, Any]:
    """With the version that was compared: when somebody saves another meanwhile, Grafana refuses this one."""
    version = {"version": item.stored.version} if item.stored else {}
    return {**content(item.wanted), **version}


def _explained(problem: SpecwatchError, item: Item) -> str:
    if isinstance(problem, Refused):
        if problem.reason == "version-mismatch":
            return f"{item.uid}: somebody saved it in Grafana meanwhile; theirs is kept"
        if problem.reason == "name-exists":
            return f"{item.uid}: another dashboard of the folder has the title {printable(item.wanted['title'])}"
    return f"{item.uid}: {problem}"


def _text(dashboard: Mapping[str, Any]) -> str:
    return json.dumps(dashboard, indent=2, sort_keys=True, ensure_ascii=False)
