"""Rates of a machine from a profile that msprof has exported."""
