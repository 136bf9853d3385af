"""What the counters mean. Pure arithmetic: no I/O, no clock."""
