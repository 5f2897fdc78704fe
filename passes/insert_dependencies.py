"""`insert-dependencies`: derives the dependences between families from their accesses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.access import Access, format_access
from hpmoe_ir.dialects.tile import (
    BufferOp,
    DependenceOp,
    ProgramOp,
    TasksOp,
    buffers_of,
    families_of,
)
from hpmoe_ir.options.options import Options
from hpmoe_ir.passes.analysis.dependence import (
    DependenceError,
    EventMap,
    Granularity,
    buffer_shape,
    events_between,
)
from hpmoe_ir.passes.analysis.level import programs_at
from hpmoe_ir.passes.analysis.task_numbers import TaskNumbers, number_tasks
from hpmoe_ir.passes.analysis.task_uses import Use, conflicts, meeting, uses_of


@dataclass(frozen=True)
class FamilyAccess:
    """One access of a task family, a read or a write."""

    family: TasksOp
    access: Access
    writes: bool


@dataclass(frozen=True)
class DependenceOptions(Options):
    """Options of the granularity of dependences."""

    granularity: Granularity = "part"
    """`part`: as fine as the accesses; `expert`: one event for all tasks of an expert."""


@dataclass(frozen=True)
class InsertDependenciesPass(DependenceOptions, ModulePass):
    """Adds a `tile.dependence` for each pair of families of which one must wait for the other.

    Families are visited in program order. A family depends on an earlier one if both use a buffer,
    at least one of them writes it, and their accesses can overlap; a family that uses a route
    depends on the tasks that build it. Events and thresholds follow from the accesses alone and
    hold for every routing: a task without rows still signals.

    Needs a `tile.program` without dependences, in which the only writer of a buffer writes all that
    is read from it. Promises that every read of a task is ordered after the writes that it needs.
    Also adds dependences that others imply, which `elide-dependencies` removes.

    ```
    tile.tasks @gmm1 (e, g, n) in (2, 2, 4) ... writes @h[grouped(e, g of 2), block(n by 64)]
    tile.tasks @swiglu (e, g) in (2, 2) ...     reads @h[grouped(e, g of 2), :]
    ```
    becomes, with `granularity=part`,
    ```
    tile.dependence @gmm1 (e, g, n) -> @swiglu (e, g) on @h
      events (2, 2) from (e, g) to (e, g) count 4
    ```
    and with `granularity=expert`
    ```
    tile.dependence @gmm1 (e, g, n) -> @swiglu (e, g) on @h
      events (2) from (e) to (e) count 8
    ```
    """

    name = "insert-dependencies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in programs_at(op, ProgramOp, self.name):
            for child in program.body.block.ops:
                if isinstance(child, DependenceOp):
                    refuse(
                        program, f"{self.name}: @{program.sym_name.data} has dependences already"
                    )
            _check_disjoint(program)
            for dependence in find_dependences(program, self.granularity):
                program.body.block.add_op(dependence)


def find_dependences(program: ProgramOp, granularity: Granularity) -> list[DependenceOp]:
    """Returns the dependences between the families of a program, consumers in program order."""
    buffers = buffers_of(program)
    accesses: dict[str, list[FamilyAccess]] = defaultdict(list)
    dependences: list[DependenceOp] = []
    for family in families_of(program).values():
        own = _accesses(family)
        merged: dict[tuple[str, EventMap], tuple[TasksOp, list[str]]] = {}
        for use in own:
            for earlier in accesses[use.access.buffer]:
                if not (earlier.writes or use.writes):
                    continue
                writers = {a.family for a in accesses[use.access.buffer] if a.writes}
                # A buffer with a single writing family must have all its read parts written by it.
                partial = use.writes or not earlier.writes or len(writers) > 1
                events = _events(program, buffers, earlier, use, granularity, partial)
                if events is None:
                    continue
                key = (earlier.family.sym_name.data, events)
                on = merged.setdefault(key, (earlier.family, []))[1]
                if use.access.buffer not in on:
                    on.append(use.access.buffer)
        for (_, events), (producer, on) in merged.items():
            dependences.append(
                DependenceOp(
                    producer,
                    family,
                    on,
                    events.extents,
                    events.source,
                    events.target,
                    np.array(events.counts),
                    events.peer,
                    events.among,
                )
            )
        for use in own:
            accesses[use.access.buffer].append(use)
    return dependences


def _accesses(family: TasksOp) -> list[FamilyAccess]:
    own = [FamilyAccess(family, access, False) for access in family.read_accesses]
    own += [FamilyAccess(family, access, True) for access in family.write_accesses]
    if family.route is not None:
        own.append(FamilyAccess(family, Access(family.route.root_reference.data, ()), False))
    return own


def _events(
    program: ProgramOp,
    buffers: dict[str, BufferOp],
    earlier: FamilyAccess,
    later: FamilyAccess,
    granularity: Granularity,
    partial: bool,
) -> EventMap | None:
    shape = buffer_shape(earlier.access.buffer, buffers, program.ranks.value.data)
    try:
        events = events_between(
            earlier.family,
            earlier.access,
            later.family,
            later.access,
            shape,
            granularity,
            partial=partial,
        )
    except DependenceError as e:
        refuse(later.family, f"insert-dependencies: {e}")
    if events is not None and later.access.peer is not None:
        names = later.family.dim_names
        refuse(
            later.family,
            f"insert-dependencies: @{later.family.sym_name.data} writes "
            f"{format_access(later.access, names)}, which @{earlier.family.sym_name.data} uses "
            "before: a put can only be ordered after its own rank's tasks; give it a window of "
            "its own",
        )
    return events


def _check_disjoint(program: ProgramOp) -> None:
    """Refuses families whose tasks have conflicting accesses: nothing orders them."""
    for uses in uses_of(numbers := number_tasks(program, program.ranks.value.data)).values():
        for first, second in sorted(conflicts(uses), key=lambda pair: not pair[0].writes):
            if first.family is second.family:
                _check_apart(numbers, first, second)


def _check_apart(numbers: TaskNumbers, first: Use, second: Use) -> None:
    if first.is_uniform and second.is_uniform:
        # The tasks of each rank meet as those of rank 0 do.
        first, second = (use.part(range(1)) for use in (first, second))
    met = meeting(first, second)
    pairs = np.bincount(met.first_group, minlength=met.groups)
    pairs *= np.bincount(met.second_group, minlength=met.groups)
    one, other = np.full((2, met.groups), -1, dtype=np.int64)
    one[met.first_group], other[met.second_group] = first.tasks, second.tasks
    for group in np.flatnonzero((pairs > 1) | ((pairs == 1) & (one != other))):
        found = next((p for p in met.pairs_of(np.array([group])) if p[0].size), None)
        if found is None:
            continue
        name = second.family.sym_name.data
        tasks = first.tasks[found[0][0]], second.tasks[found[1][0]]
        ranks = [numbers.rank_of(int(t)) for t in tasks]
        on = [f" on rank {r}" if ranks[0] != ranks[1] else "" for r in ranks]
        a, b = (f"task {numbers.family_of(int(t))[1]}{o}" for t, o in zip(tasks, on, strict=True))
        if first.writes and second.writes:
            what = f"{a} and {b} of @{name} both write {second.family_text}"
        else:
            what = f"{b} of @{name} writes {second.family_text}, which {a} reads as "
            what += first.family_text
        refuse(
            second.family,
            f"insert-dependencies: {what}; a family's tasks must write different parts, or say "
            "`scatter`",
        )
