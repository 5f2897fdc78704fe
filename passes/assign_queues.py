"""`assign-queues`: assigns tasks to cores, orders them, and turns dependences into events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

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
from hpmoe_ir.dialects.tile.signature import copy_signature
from hpmoe_ir.dialects.tile.types import AccessAttr, EventRangeAttr, IndexAttr
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import Machine
from hpmoe_ir.options.machine import MachineOption
from hpmoe_ir.options.options import Choice
from hpmoe_ir.passes.analysis.level import programs_at
from hpmoe_ir.passes.policies.arrival import source_group_dim
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.policies.registry import policies
from hpmoe_ir.passes.scheduling.order import Order, SchedulingInput, first_violation

DEFAULT_POLICY = DepthFirst()


@dataclass(frozen=True)
class QueueOptions(MachineOption):
    """Options of the assignment of tasks to cores and of their order."""

    policy: Annotated[Policy, Choice("policy", policies)] = DEFAULT_POLICY
    """Policy that orders the tasks, with its own options."""

    vector_cores: Literal["both", "one"] = "both"
    """Vector cores that run tasks: both of each AIC, or only the second."""

    rotate: bool = True
    """Whether peer coordinates start at the rank itself: `p` becomes `(rank + p) mod R`."""

    rotate_sources: bool = False
    """Whether source group coordinates start at the rank's own group and count downwards."""

    @staticmethod
    def queue_space() -> Mapping[str, Sequence[object]]:
        """Returns the values that a search tries for each option except the policy."""
        return {"rotate_sources": (False, True)}


@dataclass(frozen=True)
class AssignQueuesPass(QueueOptions, ModulePass):
    """Turns a tile program into a queue program with queue orders, events, signals and waits.

    The policy returns one total order of all tasks that respects the dependences. Unless the policy
    also chooses the cores, the tasks of each core kind are dealt in this order, round robin, to its
    cores: to all AIC, and to both AIV of each AIC, or only the second with `vector-cores=one`.
    Dependences of one producer with equal
    event maps share their events; events of puts into a window with two copies have two counters.
    With `rotate`, the peer coordinate starts at the rank itself (`p` becomes `(rank + p) mod R`):
    at any time different ranks write to different peers, and each rank sends its own rows first.
    With `rotate-sources`, source groups start at the rank's own group and count downwards, which is
    then the order in which rows arrive: `g` becomes `(rank floordiv k + g * (G - 1)) mod G` for G
    groups of k ranks.

    Needs dependences (`insert-dependencies`). Promises that each task is in exactly one queue, and
    that no task waits for one that the order places after it, on any rank.

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
    leaves_level = "tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = self.load_machine()
        for program in programs_at(op, ProgramOp, self.name):
            self._convert(program, machine)

    def _order(self, work: SchedulingInput) -> Order:
        try:
            return self.policy(work)
        except DiagnosticException:
            raise
        except Exception as e:  # the code of another package: it may raise anything
            if type(self.policy).__module__.startswith("hpmoe_ir."):
                raise
            raise PassFailedException(
                f"{self.name}: {_policy_text(self.policy)}: {type(e).__name__}: {e}"
            ) from e

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
        machine = machine.for_ranks(ranks)
        _check_sizes(families, machine)
        for family in families:
            if self.rotate:
                _rotate(family, dependences, ranks)
            if self.rotate_sources:
                _rotate_sources(family, dependences, ranks)
        slots = {
            CoreKind.AIC: np.arange(machine.aic_cores),
            CoreKind.AIV: np.arange(machine.aiv_cores),
        }
        if self.vector_cores == "one":
            slots[CoreKind.AIV] = slots[CoreKind.AIV][
                machine.aiv_per_aic - 1 :: machine.aiv_per_aic
            ]
        work = SchedulingInput(
            families,
            dependences,
            buffers_of(program),
            ranks,
            machine,
            {kind: len(cores) for kind, cores in slots.items()},
        )
        order = self._order(work)
        violation = first_violation(families, dependences, order.keys, ranks)
        if violation is not None:
            d, producer, consumer = violation
            raise PassFailedException(
                f"{self.name}: {_policy_text(self.policy)} puts task {consumer} of "
                f"@{d.consumer.root_reference.data} before task {producer} of "
                f"@{d.producer.root_reference.data}, which it waits for"
            )
        converted = queue.ProgramOp(program.sym_name.data, ranks, self.machine)
        copy_signature(program, converted)
        converted.location = program.location
        for child in list(block.ops):
            if not isinstance(child, DependenceOp):
                child.detach()
                converted.body.block.add_op(child)
        converted.body.block.add_ops(_event_ops(dependences, families, buffers_of(converted)))
        for core in CoreKind:
            converted.body.block.add_op(_deal(core, families, order, slots[core], machine))
        program.parent_block().insert_op_before(converted, program)  # pyright: ignore[reportOptionalMemberAccess]
        program.detach()
        program.erase()


def _policy_text(policy: Policy) -> str:
    """Returns the name of a policy for messages, with its package if it is not this one."""
    package = type(policy).__module__.partition(".")[0]
    return f"policy {policy.name}" + (f" of {package}" if package != "hpmoe_ir" else "")


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
    """Makes the peer coordinate of a family start at the rank itself."""
    peer = family.target_peer
    if not isinstance(peer, AffineDimExpr) or family.extents[peer.position] != ranks:
        return
    _replace_dim(family, dependences, peer.position, (RANK + peer) % ranks)


def _rotate_sources(family: TasksOp, dependences: Sequence[DependenceOp], ranks: int) -> None:
    """Makes source group coordinates start at the rank's own group and count downwards."""
    dim = source_group_dim(family)
    if dim is None:
        return
    groups = family.extents[dim]
    if ranks % groups:
        refuse(
            family,
            "assign-queues: option 'rotate-sources': expected source groups of as many ranks each, "
            f"found {groups} groups of {ranks} ranks",
        )
    own = RANK if groups == ranks else RANK // (ranks // groups)
    down = AffineExpr.dimension(dim) * (groups - 1)
    _replace_dim(family, dependences, dim, (own + down) % groups)


def _replace_dim(
    family: TasksOp, dependences: Sequence[DependenceOp], dim: int, by: AffineExpr
) -> None:
    """Replaces coordinate `dim` by `by` in the family and in the events of its dependences."""

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
            if d.event_range is not None:
                d.among = EventRangeAttr(d.event_range.map_exprs(change))


def _event_ops(
    dependences: Sequence[DependenceOp], families: Sequence[TasksOp], buffers: dict[str, BufferOp]
) -> list[queue.EventOp | queue.SignalOp | queue.WaitOp]:
    """Returns the events with their signals and waits; equal event maps share an event family.

    A put into a window with two copies may arrive one launch early, so its events have two copies
    of their counters too.
    """
    copies = {f.sym_name.data: _max_copies(f, buffers) for f in families}
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
            event_copies = 1 if d.peer is None else copies[producer]
            events.append(queue.EventOp(name, d.extents, counts, copies=event_copies))
            names = [n.data for n in d.producer_dims]
            signals.append(
                queue.SignalOp(producer, names, name, d.source_exprs, d.peer_expr, d.credit)
            )
        names = [n.data for n in d.consumer_dims]
        waits.append(
            queue.WaitOp(
                d.consumer.root_reference.data, names, shared[key], d.target_exprs, d.event_range
            )
        )
    return [*events, *signals, *waits]


def _max_copies(family: TasksOp, buffers: dict[str, BufferOp]) -> int:
    """Returns the largest number of copies of the windows that the tasks put rows into."""
    windows = [buffers[r.buffer] for r in family.write_accesses if r.peer is not None]
    return max((w.copies.value.data for w in windows), default=1)


def _deal(
    core: CoreKind, families: Sequence[TasksOp], order: Order, slots: IntArray, machine: Machine
) -> queue.OrderOp:
    """Deals the tasks of one core kind to `slots`: to the policy's cores, or round robin by key."""
    own = [i for i, f in enumerate(families) if f.core_kind is core]
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
