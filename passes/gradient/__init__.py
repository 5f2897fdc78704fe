"""Reverse-mode differentiation at the `moe` level."""
