"""Timed runs of generated code and their reports."""
