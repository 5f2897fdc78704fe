"""Lowering of the queue level to Ascend C, task tables and host code."""
