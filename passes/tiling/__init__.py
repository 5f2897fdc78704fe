"""Tiling of operations into families of tile tasks."""
