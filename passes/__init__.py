"""Passes over the IR, one module for each pass."""
