"""What the sidecar says while it runs: lines for people or JSON for programs, one an event, and nothing forged in them.

Names of targets and models, paths that were asked for and what servers answer are other people's words. Signs that a
terminal would obey, or that would begin a line of their own, are escaped.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Literal

_OWN = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "color_message"}
"""What every record has, and what uvicorn adds to its own; the rest was given as ``extra``."""


def begin(form: Literal["text", "json"]) -> None:
    """Send every line of this process, of libraries too, to stderr in one form and once."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)


class TextLines(logging.Formatter):
    """Time, level and message; a traceback follows indented, so that no line of it looks like one of ours."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The one line."""
        return escaped(super().formatMessage(record))

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        """The traceback."""
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).splitlines())


class JsonLines(logging.Formatter):
    """An object a line: time (UTC), level, logger, message, what was given as ``extra``, and an exception's trace."""

    def format(self, record: logging.LogRecord) -> str:
        """The one line, in ASCII."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: str(value) for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def escaped(text: str) -> str:
    """The text with control signs, line ends and signs that turn the direction of writing escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
