"""Policies: orders of the tasks on the cores."""
