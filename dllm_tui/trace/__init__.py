"""Traces: write, read, and lay out in time."""
