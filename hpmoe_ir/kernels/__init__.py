"""Tile kernels: interface, reference, cost and time."""
