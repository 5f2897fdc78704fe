"""Prints the plan of a queue program as Ascend C."""
