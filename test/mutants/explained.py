"""Why what nobody notices is no mistake."""

from __future__ import annotations

from mutants.mutant import Outcome

ORDER_HOLDS = "every order that the program needs still holds"
"""Proved for each mutant by the oracle (`task_graph.py`, `needed_order.py`)."""


def explain(outcome: Outcome) -> str:
    """The reason, empty where there is none."""
    if outcome.harm == "":
        return ORDER_HOLDS
    return ""
