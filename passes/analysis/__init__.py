"""Analyses of tile and queue programs."""
