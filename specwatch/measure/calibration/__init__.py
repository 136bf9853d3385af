"""What speculation is worth on a server, measured against the same server without it, at a ladder of loads."""
