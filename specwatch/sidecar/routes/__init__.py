"""The HTTP routes of the sidecar, one file a noun."""
