"""Arithmetic on integers that sizes, counts and offsets need."""

from __future__ import annotations


def ceil_div(a: int, b: int) -> int:
    """Returns a / b rounded towards plus infinity; `b` is positive."""
    return -(-a // b)


def round_up(a: int, multiple: int) -> int:
    """Returns the least multiple of `multiple` that is not below `a`."""
    return ceil_div(a, multiple) * multiple
