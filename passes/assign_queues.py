"""`assign-queues`: which core runs which task, in which order, with the events between them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.index import RANK, IntArray
from hpmoe_ir.dialects.tile import (
    BufferOp,
    DependenceOp,
    ProgramOp,
    TasksOp,
    buffers_of,
    families_of,
)
from hpmoe_ir.dialects.tile.types import AccessAttr, IndexAttr
from hpmoe_ir.machines.machine import Machine, MachineError, load_machine
from hpmoe_ir.passes.analysis.level import programs_at
from hpmoe_ir.passes.policies.arrival import source_group_dim
from hpmoe_ir.passes.policies.registry import POLICIES
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput, first_violation


@dataclass(frozen=True)
class AssignQueuesPass(ModulePass):
    """Turns a tile program into a queue program: orders for all cores, events, waits, signals.

    A policy gives one order of all tasks that dependences agree with; the tasks of each kind of
    core are dealt in this order to its cores in turn, all AIC and both AIV of each AIC, or the
    second of the two with `vector_cores=one`. Dependences of one producer that count alike share
    their events; those of puts into a window with two copies have two counters each. With
    `rotate`, the coordinate that names the rank to write to is counted from the rank itself, `p`
    becoming `(rank + p) mod R`, so that at any time different ranks write to different peers, and
    each begins with its own rows. With `rotate_sources`, source groups are counted from the rank's
    own downwards, in which order rows then come: `g` becomes
    `(rank floordiv k + g * (G - 1)) mod G` for G groups of k ranks.

    Needs dependences. Promises that each task is in one queue, and that no core waits for a task
    that is behind it, on any rank.

    ```
    tile.program @layer ranks 2 {
      tile.tasks @dispatch (p, e) in (2, 2) on aiv ...
      tile.tasks @gmm1 (e, g) in (2, 2) on aic ...
      tile.dependence @dispatch (p, e) -> @gmm1 (e, g) on @recv
        events (2, 2) from (e, rank) on p to (e, g) count 1
    }
    ```
    becomes
    ```
    queue.program @layer ranks 2 machine "ascend-a3" {
      tile.tasks @dispatch (p, e) in (2, 2) on aiv ...
      tile.tasks @gmm1 (e, g) in (2, 2) on aic ...
      queue.event @dispatch_done (2, 2) count 1
      queue.signal @dispatch (p, e) to @dispatch_done (e, rank) on (rank + p) mod 2
      queue.wait @gmm1 (e, g) for @dispatch_done (e, g)
      queue.order aic {...}
      queue.order aiv {...}
    }
    ```
    """

    name = "assign-queues"

    policy: str = "depth-first"
    """The order of the tasks, one of `known_policies`."""

    ahead: int = 2
    """Experts by which puts are early, with `depth-first` and `overlap`."""

    wave: int = 0
    """Experts of a wave, with `waves`; 0: as many as keep the matrix cores busy."""

    behind: int = 2
    """Tasks for each matrix core by which the next product is behind, with `overlap`."""

    vector_cores: Literal["both", "one"] = "both"
    """Vector cores that take tasks: both of each AIC, or one."""

    rotate: bool = True
    """Whether destinations are counted from the rank itself."""

    rotate_sources: bool = False
    """Whether source groups are counted from the rank's own, downwards."""

    machine: str = "ascend-a3"
    """The machine description that says how many cores there are."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.policy not in POLICIES:
            near = difflib.get_close_matches(self.policy, POLICIES, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise PassFailedException(
                f"{self.name}: option policy: expected one of {', '.join(POLICIES)}, "
                f"found '{self.policy}'{hint}"
            )
        if self.ahead < 0:
            raise PassFailedException(
                f"{self.name}: option ahead: expected 0 or more experts, found {self.ahead}"
            )
        if self.behind < 0:
            raise PassFailedException(
                f"{self.name}: option behind: expected 0 or more tasks, found {self.behind}"
            )
        if self.wave < 0:
            raise PassFailedException(
                f"{self.name}: option wave: expected 0 or more experts, found {self.wave}"
            )
        if self.vector_cores not in ("both", "one"):
            raise PassFailedException(
                f"{self.name}: option vector_cores: expected both or one, "
                f"found '{self.vector_cores}'"
            )
        try:
            machine = load_machine(self.machine)
        except MachineError as e:
            raise PassFailedException(f"{self.name}: option machine: {e}") from e
        for program in programs_at(op, ProgramOp, self.name):
            self._convert(program, machine)

    def _convert(self, program: ProgramOp, machine: Machine) -> None:
        block = program.body.block
        families = list(families_of(program).values())
        dependences = [d for d in block.ops if isinstance(d, DependenceOp)]
        if len(families) > 1 and not dependences:
            refuse(
                program,
                f"{self.name}: @{program.sym_name.data} has no dependences; run "
                "insert-dependencies before it",
            )
        ranks = program.ranks.value.data
        _check_sizes(families, machine)
        for family in families:
            if self.rotate:
                _rotate(family, dependences, ranks)
            if self.rotate_sources:
                _rotate_sources(family, dependences, ranks)
        slots = {
            "aic": np.arange(machine.aic_cores),
            "aiv": np.arange(machine.aiv_cores),
        }
        if self.vector_cores == "one":
            slots["aiv"] = slots["aiv"][machine.aiv_per_aic - 1 :: machine.aiv_per_aic]
        order = POLICIES[self.policy](
            SchedulingInput(
                families,
                dependences,
                buffers_of(program),
                ranks,
                machine,
                {kind: len(cores) for kind, cores in slots.items()},
                self.ahead,
                self.wave,
                self.behind,
            )
        )
        violation = first_violation(families, dependences, order.keys, ranks)
        if violation is not None:
            d, producer, consumer = violation
            raise PassFailedException(
                f"{self.name}: policy {self.policy} puts task {consumer} of "
                f"@{d.consumer.root_reference.data} before task {producer} of "
                f"@{d.producer.root_reference.data}, which it waits for"
            )
        made = queue.ProgramOp(program.sym_name.data, ranks, self.machine)
        for found in list(block.ops):
            if not isinstance(found, DependenceOp):
                found.detach()
                made.body.block.add_op(found)
        made.body.block.add_ops(_event_ops(dependences, families, buffers_of(made)))
        for core in TasksOp.CORES:
            made.body.block.add_op(_deal(core, families, order, slots[core], machine))
        program.parent_block().insert_op_before(made, program)  # pyright: ignore[reportOptionalMemberAccess]
        program.detach()
        program.erase()


def _check_sizes(families: Sequence[TasksOp], machine: Machine) -> None:
    if len(families) > machine.families:
        raise PassFailedException(
            f"assign-queues: at most {machine.families} families of tasks, found {len(families)}"
        )
    for family in families:
        if family.task_count > machine.queue_points:
            refuse(
                family,
                f"assign-queues: @{family.sym_name.data} has {family.task_count} tasks, at most "
                f"{machine.queue_points} are possible; use larger tiles",
            )


def _rotate(family: TasksOp, dependences: Sequence[DependenceOp], ranks: int) -> None:
    """Counts the coordinate that is the peer from the rank itself."""
    peer = family.target_peer
    if not isinstance(peer, AffineDimExpr) or family.extents[peer.position] != ranks:
        return
    _replace_dim(family, dependences, peer.position, (RANK + peer) % ranks)


def _rotate_sources(family: TasksOp, dependences: Sequence[DependenceOp], ranks: int) -> None:
    """Counts the coordinate that is the source group from the group of the rank, downwards."""
    dim = source_group_dim(family)
    if dim is None:
        return
    groups = family.extents[dim]
    if ranks % groups:
        refuse(
            family,
            f"assign-queues: option rotate_sources: expected source groups of as many ranks each, "
            f"found {groups} groups of {ranks} ranks",
        )
    own = RANK if groups == ranks else RANK // (ranks // groups)
    down = AffineExpr.dimension(dim) * (groups - 1)
    _replace_dim(family, dependences, dim, (own + down) % groups)


def _replace_dim(
    family: TasksOp, dependences: Sequence[DependenceOp], dim: int, by: AffineExpr
) -> None:
    """Replaces a coordinate by an expression of it wherever the family or its events use it."""

    def change(expr: AffineExpr) -> AffineExpr:
        dims = [AffineExpr.dimension(i) for i in range(len(family.extents))]
        dims[dim] = by
        return expr.replace_dims_and_symbols(dims, [RANK])

    def indices(exprs: ArrayAttr[IndexAttr]) -> ArrayAttr[IndexAttr]:
        return ArrayAttr(IndexAttr(change(e.data)) for e in exprs)

    family.reads = ArrayAttr(AccessAttr(r.map_exprs(change)) for r in family.read_accesses)
    family.writes = ArrayAttr(AccessAttr(r.map_exprs(change)) for r in family.write_accesses)
    family.scalars = indices(family.scalars)
    for d in dependences:
        if d.producer.root_reference == family.sym_name:
            d.source = indices(d.source)
            if d.peer is not None:
                d.peer = IndexAttr(change(d.peer.data))
        if d.consumer.root_reference == family.sym_name:
            d.target = indices(d.target)


def _event_ops(
    dependences: Sequence[DependenceOp], families: Sequence[TasksOp], buffers: dict[str, BufferOp]
) -> list[queue.EventOp | queue.SignalOp | queue.WaitOp]:
    """Families of events, shared where dependences count alike, with their users.

    Signals of puts that may come a launch early, into a window with two copies, have two counters
    likewise.
    """
    copies = {f.sym_name.data: _most_copies(f, buffers) for f in families}
    events: list[queue.EventOp] = []
    signals: list[queue.SignalOp] = []
    waits: list[queue.WaitOp] = []
    shared: dict[tuple[object, ...], str] = {}
    for d in dependences:
        producer = d.producer.root_reference.data
        key = (producer, d.events, d.source, d.peer, d.counts, d.credit)
        if key not in shared:
            number = sum(1 for k in shared if k[0] == producer)
            name = f"{producer}_done" + (f"_{number}" if number else "")
            shared[key] = name
            equal = np.unique(d.thresholds)
            counts = equal if equal.size == 1 else d.thresholds
            most = 1 if d.peer is None else copies[producer]
            events.append(queue.EventOp(name, d.extents, counts, copies=most))
            names = [n.data for n in d.producer_dims]
            signals.append(
                queue.SignalOp(producer, names, name, d.source_exprs, d.peer_expr, d.credit)
            )
        names = [n.data for n in d.consumer_dims]
        waits.append(
            queue.WaitOp(d.consumer.root_reference.data, names, shared[key], d.target_exprs)
        )
    return [*events, *signals, *waits]


def _most_copies(family: TasksOp, buffers: dict[str, BufferOp]) -> int:
    """Copies of the windows that the tasks put rows into, the most that one of them has."""
    windows = [buffers[r.buffer] for r in family.write_accesses if r.peer is not None]
    return max((w.copies.value.data for w in windows), default=1)


def _deal(
    core: str, families: Sequence[TasksOp], order: Order, slots: IntArray, machine: Machine
) -> queue.OrderOp:
    """The queues of one kind of core: its tasks by their keys, dealt to the cores `slots`."""
    own = [i for i, f in enumerate(families) if f.core.data == core]
    cores = machine.cores(core)
    if not own:
        return queue.OrderOp(core, [], np.zeros(cores + 1, dtype=np.int64), np.zeros(0, np.int64))
    tasks = np.concatenate(
        [
            (n << queue.POINT_BITS) + np.arange(families[i].task_count, dtype=np.int64)
            for n, i in enumerate(own)
        ]
    )
    sort = np.concatenate([order.keys[i] for i in own])
    by_key = np.lexsort(sort.T[::-1])
    if order.cores is not None:
        core_of = slots[np.concatenate([order.cores[i] for i in own])[by_key]]
    else:
        turn = np.arange(len(tasks))
        if order.segments:
            segment = sort[by_key, 0]
            begins = np.diff(segment, prepend=segment[:1]) != 0
            turn = turn - np.maximum.accumulate(np.where(begins, turn, 0))
        core_of = slots[turn % len(slots)]
    by_core = np.argsort(core_of, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(core_of, minlength=cores))])
    return queue.OrderOp(
        core, [families[i].sym_name.data for i in own], first, tasks[by_key][by_core]
    )
