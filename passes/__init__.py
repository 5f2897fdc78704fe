"""Rewrites of the IR: one module a pass."""
