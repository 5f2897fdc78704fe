"""Execution of compiled layers, reference results, and comparison with error bounds."""
