"""Tile kernels: contract, reference, cost and time."""
