"""What the vector kernels of a machine, and its links, can hold: experts, copies, credits, ranks.

Vector kernels keep lists in UB. Where UB is too small for lists of full length, all of them are cut
to a half, a quarter and so on (`hpmoe/memories.h`); fewer experts then fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpmoe_ir.kernels.device import (
    LIST_CUTS,
    MAX_COPIES,
    MAX_CREDITS,
    MAX_EXPERTS,
    UB_LISTS,
    UB_REST,
)
from hpmoe_ir.machines.machine import Machine


class MachineFitError(ValueError):
    """A layer or a tile that does not fit the machine; the message says what is too large."""


@dataclass(frozen=True)
class ListLimits:
    """The longest lists of vector kernels on a machine."""

    experts: int
    """Largest number of experts of all ranks."""
    copies: int
    """Largest number of experts that a token is sent to."""
    credits: int
    """Largest number of events whose missing signals a task credits."""


def list_limits(machine: Machine) -> ListLimits:
    """Returns the limits of the lists in the UB of a machine.

    They are those of the shortest lists where UB holds not even these; `LocalUse.exceeds` then
    refuses every vector kernel.
    """
    fitting = (cut for cut in LIST_CUTS if machine.ub_usable >= UB_LISTS // cut + UB_REST)
    cut = next(fitting, LIST_CUTS[-1])
    return ListLimits(MAX_EXPERTS // cut, MAX_COPIES // cut, MAX_CREDITS // cut)


def layer_misfit(machine: Machine, ranks: int, experts: int, copies: int) -> str:
    """Returns a message naming what a machine cannot hold of a layer, "" if it holds all.

    experts: of all ranks. copies: the number of experts that a token is sent to.
    """
    reach = machine.direct_ranks
    if reach is not None and ranks > reach:
        return (
            f"expected at most {reach} ranks, as many as write each other's memory directly on "
            f"{machine.name}, found {ranks}"
        )
    limits = list_limits(machine)
    for what, found, most in (
        ("experts", experts, limits.experts),
        ("experts per token", copies, limits.copies),
    ):
        if found > most:
            return (
                f"expected at most {most} {what}, whose lists the {machine.ub_usable} bytes of UB "
                f"of {machine.name} hold, found {found}"
            )
    return ""
