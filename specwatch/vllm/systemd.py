"""Tells systemd how a service with ``Type=notify`` is doing; nothing where there is no systemd that asks."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

SOCKET = "NOTIFY_SOCKET"
"""Variable with the address of systemd's socket; it is for this process alone, not for its children."""


def notify(*lines: str) -> None:
    """Send lines such as ``READY=1`` or ``STATUS=waiting``; a service manager that is not there is no error."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as stream:
        # An address in the abstract namespace is written with @ in place of its first byte, 0.
        stream.connect("\0" + address[1:] if address.startswith("@") else address)
        stream.sendall("\n".join(lines).encode())
