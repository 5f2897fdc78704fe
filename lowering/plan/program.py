"""The plan of a whole program, printed as code and task table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dialects.index import IntArray
from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK, OrderOp
from hpmoe_ir.dialects.symbol_names import KERNEL_NAMES
from hpmoe_ir.lowering.plan.credits import (
    CreditPlan,
    credit_name,
    credited_signals,
    plan_credit,
)
from hpmoe_ir.lowering.plan.family import FamilyPlan, plan_family
from hpmoe_ir.lowering.plan.names import (
    CREDIT_LOCALS,
    TASK_LOCALS,
    check_cpp_name,
    check_kernel_name,
)
from hpmoe_ir.lowering.plan.sizes import Size, SizeTable
from hpmoe_ir.lowering.program import LoweredProgram, LoweringError
from hpmoe_ir.machines.core_kind import CoreKind

COUNTER_LINE = 64
"""Bytes from one counter to the next."""


@dataclass(frozen=True)
class WaitTicks:
    """Budget and pauses of waits, in ticks of the system counter; 0 means unlimited or no pause."""

    budget: int
    """Time after which a wait gives up."""
    poll_aic: int
    """Pause between two polls of a counter by an AIC."""
    poll_aiv: int
    """Pause between two polls of a counter by an AIV."""


@dataclass(frozen=True, eq=False)
class QueuePlan:
    """The queues of one kind of core, as stored in the task table."""

    first: IntArray
    """Index of the first slot of each worker, then the number of slots."""
    slots: IntArray
    """Slots of all workers: family number above `POINT_BITS` bits of the grid point's number."""

    @property
    def worker_count(self) -> int:
        """Number of queues, one for each core."""
        return len(self.first) - 1


@dataclass(frozen=True, eq=False)
class ProgramPlan:
    """The complete plan of the code and the task table of a program."""

    program: LoweredProgram
    name: str
    """Name of the kernel."""
    arguments: tuple[str, ...]
    """Buffers of the caller, in the order of the kernel's parameters."""
    families: tuple[FamilyPlan, ...]
    """Families of tasks; slots refer to a family by its index here."""
    credits: tuple[CreditPlan, ...]
    sizes: tuple[Size, ...]
    """Named words of the task table, in order."""
    waits: WaitTicks | None
    """Budget and pauses of waits; None if the program sets neither."""
    thresholds: IntArray
    """Number of signals of each counter in a launch that uses it."""
    first_counter_line: int
    """Index of the 64-byte line of window memory that holds the first counter."""
    queues: dict[CoreKind, QueuePlan]
    """Queues by kind of core."""

    @property
    def task_count(self) -> int:
        """Number of tasks of a rank."""
        return sum(f.task_count for f in self.program.families.values())


def plan_program(program: LoweredProgram) -> ProgramPlan:
    """Plans the code and the task table of a program.

    Raises LoweringError, or RefusedError with the operation at fault, for a program that cannot be
    lowered.
    """
    _check_arguments(program)
    table = SizeTable(f"target {program.target}: @{program.name}")
    credited = credited_signals(program)
    families = tuple(
        plan_family(
            program,
            family,
            [credit_name(program, s) for s in credited if s.credit_name == name],
            table,
        )
        for name, family in program.families.items()
    )
    credits = tuple(plan_credit(program, signal, table) for signal in credited)
    _check_functions(program, families, credits)
    return ProgramPlan(
        program=program,
        name=program.name,
        arguments=tuple(b.sym_name.data for b in program.arguments),
        families=families,
        credits=credits,
        sizes=table.sizes(),
        waits=_waits(program),
        thresholds=_thresholds(program),
        first_counter_line=_first_counter_line(program),
        queues={core: _queue(program, order) for core, order in program.orders.items()},
    )


def _check_arguments(program: LoweredProgram) -> None:
    check_kernel_name(program.op, program.name, program.target)
    # The arguments are also members of a struct of the host side, which has a name of the program.
    taken = KERNEL_NAMES | {f"{program.name}_arguments"}
    for buffer in program.arguments:
        check_cpp_name(buffer, buffer.sym_name.data, program.target, taken)


def _check_functions(
    program: LoweredProgram, families: Sequence[FamilyPlan], credits: Sequence[CreditPlan]
) -> None:
    """Raises RefusedError for families whose functions or coordinates have reserved names."""
    taken = frozenset(credit.function for credit in credits)
    for plan in families:
        op = program.families[plan.name]
        check_cpp_name(op, plan.function, program.target, taken)
        taken |= {plan.function}
        operands = [*plan.writes, *(o for stage in plan.stages for o in stage.reads)]
        names = [name for o in operands for name in (o.variable, *(r.name for r in o.rows))]
        for dimension in plan.dimensions:
            check_cpp_name(op, dimension.name, program.target, TASK_LOCALS.union(names))
    for credit in credits:
        loops = (*credit.outer, *credit.inner, *credit.factors)
        ends = [f"end{loop.number}" for loop in loops]
        for loop in loops:
            op = program.families[credit.family]
            check_cpp_name(op, loop.coordinate, program.target, CREDIT_LOCALS.union(ends))


def _waits(program: LoweredProgram) -> WaitTicks | None:
    ticks = [program.op.ticks(name) for name in ("budget", "poll_aic", "poll_aiv")]
    return WaitTicks(*ticks) if any(ticks) else None


def _thresholds(program: LoweredProgram) -> IntArray:
    thresholds = np.zeros(program.counter_count, dtype=np.int64)
    for event in program.events.values():
        for copy in range(event.copy_count):
            line = event.first_line(copy)
            thresholds[line : line + event.event_count] = event.thresholds
    return thresholds


def _first_counter_line(program: LoweredProgram) -> int:
    if program.counters % COUNTER_LINE:
        raise LoweringError(
            f"target {program.target}: @{program.name}: expected counters at a multiple of "
            f"{COUNTER_LINE} bytes, found {program.counters}"
        )
    return program.counters // COUNTER_LINE


def _queue(program: LoweredProgram, order: OrderOp) -> QueuePlan:
    """Returns the slots of an order, with families numbered as in the program."""
    numbers = {name: i for i, name in enumerate(program.families)}
    slots = order.slot_values
    families = np.array([numbers[n] for n in order.family_names] or [0], dtype=np.int64)
    numbered = (families[slots >> POINT_BITS] << POINT_BITS) + (slots & POINT_MASK)
    return QueuePlan(order.first_slots, numbered)
