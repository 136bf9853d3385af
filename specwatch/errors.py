"""The one exception that reaches a user as a message instead of a traceback."""

from __future__ import annotations


class SpecwatchError(Exception):
    """Something the user can mend: the text names the place and the remedy.

    ``exit_code`` is what the command line ends with: 2 for wrong input, 1 for a failure on the way.
    """

    exit_code = 1


class InputError(SpecwatchError):
    """Input that cannot be used: an option, a file, a page."""

    exit_code = 2
