"""Tiny models and a simulated fleet, shared by demo, tests and benchmarks."""
