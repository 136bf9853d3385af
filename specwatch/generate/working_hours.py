"""When tickets are told: working hours, written on one line, and their complement for Alertmanager."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticCustomError

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_WRITTEN = re.compile(
    r"(?P<first>[a-z]+)(:(?P<last>[a-z]+))? (?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)( (?P<zone>[\w+/-]+))?", re.ASCII
)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


@dataclass(frozen=True)
class WorkingHours:
    """The same hours on some days of the week; times are HH:MM in ``zone``."""

    first: str
    last: str
    begin: str
    end: str
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.first}:{self.last} {self.begin}-{self.end} {self.zone}"

    def outside(self) -> list[dict[str, Any]]:
        """The rest of the week, as Alertmanager's time intervals."""
        zone = {"location": self.zone}
        first, last = DAYS.index(self.first), DAYS.index(self.last)
        free = [day for number, day in enumerate(DAYS) if not first <= number <= last]
        times = [
            {"start_time": begin, "end_time": end}
            for begin, end in (("00:00", self.begin), (self.end, "24:00"))
            if begin != end
        ]
        return [
            *([{"weekdays": free, **zone}] if free else []),
            *([{"times": times, **zone}] if times else []),
        ]


def working_hours(value: Any) -> Any:
    """``monday:friday 08:00-18:00 Europe/Berlin`` as WorkingHours; anything else is refused with an example."""
    if isinstance(value, WorkingHours):
        return value
    match = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _refuse("write days, hours and a time zone, such as monday:friday 08:00-18:00 Europe/Berlin")
    first, last = match["first"], match["last"] or match["first"]
    if first not in DAYS or last not in DAYS or DAYS.index(first) > DAYS.index(last):
        raise _refuse(f"{first}:{last} are no days of one week; it begins with monday")
    begin, end = match["begin"], match["end"]
    if not (_TIME.fullmatch(begin) and _TIME.fullmatch(end)) or begin >= end:
        raise _refuse(f"{begin}-{end} are no hours of one day; it ends at 24:00")
    _check_zone(match["zone"] or "UTC")
    hours = WorkingHours(first, last, begin, end, match["zone"] or "UTC")
    if not hours.outside():
        raise _refuse("these are all hours of the week; leave it out")
    return hours


def _check_zone(zone: str) -> None:
    known = zoneinfo.available_timezones()
    # A machine without time zone data knows none, which says nothing about Alertmanager's.
    if known and zone not in known:
        near = difflib.get_close_matches(zone, sorted(known), n=1)
        raise _refuse(f"there is no time zone {zone}" + (f"; did you mean {near[0]}?" if near else ""))


def _refuse(text: str) -> PydanticCustomError:
    return PydanticCustomError("unusable", "{text}", {"text": text})
