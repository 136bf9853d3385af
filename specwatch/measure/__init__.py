"""Sending load and measuring what comes back."""
