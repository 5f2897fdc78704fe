"""`verify-queues` against a check that follows single tasks, on random programs and broken ones.

The oracle unrolls two launches of all ranks into one graph of tasks: queues, events, launches. It
takes row ranges from random routings (`must_be_ordered`), knows no axes and no classes, and cannot
say that a program is right, only that some routing makes it wrong.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir.affine import AffineExpr

from hpmoe_ir.diagnostics import RefusedError
from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.index import evaluate_index
from hpmoe_ir.dialects.tile import MemorySpace, buffers_of, families_of
from hpmoe_ir.dialects.tile.types import IndexAttr, dense_i32
from hpmoe_ir.machines.machine import MACHINE_DIR
from hpmoe_ir.passes.analysis.task_uses import uses_of
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.proof.coverage import check_written
from hpmoe_ir.passes.proof.launches import check_launches
from hpmoe_ir.passes.proof.layout import check_thresholds
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.races import check_order
from hpmoe_ir.passes.proof.run import run_queues
from hpmoe_ir.passes.proof.tasks import queue_tasks
from hpmoe_ir.passes.verify_queues import verify_queues

Task: TypeAlias = tuple[int, str, int]
Event: TypeAlias = tuple[int, str, int]
Node: TypeAlias = tuple[int, Task]
"""A task in launch 0 or 1."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A machine with two matrix cores: queues are long and few."""
    text = (MACHINE_DIR / "ascend-a3.toml").read_text()
    path: Path = tmp_path_factory.mktemp("machine") / "two-cores.toml"
    path.write_text(text.replace("aic = 24", "aic = 2"))
    return str(path)


def queued(programs: Any, machine: str, seed: int) -> queue.ProgramOp:
    """The queue program of a seed."""
    module = ModuleOp([programs.random(seed)])
    draw = random.Random(seed)
    for module_pass in (
        InsertDependenciesPass(granularity=draw.choice(["part", "expert"])),
        *([ElideDependenciesPass()] if draw.randrange(4) else []),
        AssignQueuesPass(
            policy=draw.choice([OperatorOrder(), DepthFirst(draw.randrange(3))]),
            rotate=draw.choice([False, True]),
            machine=machine,
        ),
    ):
        module_pass.apply(Context(), module)
    (program,) = module.ops
    assert isinstance(program, queue.ProgramOp)
    program.detach()
    return program


class Unrolled:
    """Two launches, task by task."""

    def __init__(self, program: queue.ProgramOp) -> None:
        self.program = program
        self.ranks = range(program.ranks.value.data)
        self.families = families_of(program)
        self.waits: dict[Task, list[Event]] = defaultdict(list)
        self.signallers: dict[Event, list[Task]] = defaultdict(list)
        for op in (*queue.waits_of(program), *queue.signals_of(program)):
            for rank in self.ranks:
                for point in range(self.families[op.family_name].task_count):
                    self._use(op, (rank, op.family_name, point))
        self.queues = [q for rank in self.ranks for q in self._queues(rank)]
        self.right_counts = all(
            len(self.signallers[rank, name, i]) == int(event.thresholds[i])
            for name, event in queue.events_of(program).items()
            for rank in self.ranks
            for i in range(event.event_count)
        )
        self.before: dict[Node, int] = {}
        self.number = {
            node: i
            for i, node in enumerate((n, task) for n in range(2) for q in self.queues for task in q)
        }
        self.ends = all(self._launch(n) for n in range(2))

    def _use(self, op: queue.WaitOp | queue.SignalOp, task: Task) -> None:
        rank, name, point = task
        coords = [int(c[point]) for c in self.families[name].coordinates()]
        event = queue.events_of(self.program)[op.event_name]
        flat = 0
        for expr, extent in zip(op.index_exprs, event.extents, strict=True):
            flat = flat * extent + int(evaluate_index(expr, coords, rank))
        if isinstance(op, queue.WaitOp):
            self.waits[task].append((rank, op.event_name, flat))
            return
        peer = op.peer_expr
        owner = rank if peer is None else int(evaluate_index(peer, coords, rank))
        self.signallers[owner, op.event_name, flat].append(task)

    def _queues(self, rank: int) -> list[list[Task]]:
        found: list[list[Task]] = []
        for order in queue.orders_of(self.program).values():
            first, slots, names = order.first_slots, order.slot_values, order.family_names
            for core in range(order.core_count):
                own = [int(s) for s in slots[first[core] : first[core + 1]]]
                found.append(
                    [(rank, names[s >> queue.POINT_BITS], s & queue.POINT_MASK) for s in own]
                )
        return found

    def _launch(self, n: int) -> bool:
        """Follows a launch to its end, noting what has ended before each task starts."""
        start = {rank: 0 for rank in self.ranks}
        if n:
            for (launch, task), i in self.number.items():
                if launch == 0:
                    start[task[0]] |= self.before[0, task] | 1 << i
        heads = [0] * len(self.queues)
        moved = True
        while moved:
            moved = False
            for c, tasks in enumerate(self.queues):
                if heads[c] == len(tasks):
                    continue
                task = tasks[heads[c]]
                needed = [t for e in self.waits[task] for t in self.signallers[e]]
                if not all((n, t) in self.before for t in needed):
                    continue
                known = start[task[0]]
                for t in needed + tasks[: heads[c]]:
                    known |= self.before[n, t] | 1 << self.number[n, t]
                self.before[n, task] = known
                heads[c] += 1
                moved = True
        return all(h == len(q) for h, q in zip(heads, self.queues, strict=True))

    def ordered(self, a: Node, b: Node) -> bool:
        """Whether `a` has ended before `b` starts, in every execution."""
        return bool(self.before[b] >> self.number[a] & 1)

    def launch_is_right(self, programs: Any, seed: int) -> bool:
        """Whether one launch ends, with all that meets under a routing in order."""
        if not self.right_counts or not self.ends:
            return False
        pairs = programs.must_be_ordered(self.program, seed)
        return all(self.ordered((0, a), (0, b)) for a, b in pairs)

    def launches_are_right(self, programs: Any, seed: int) -> bool:
        """Whether the second launch leaves alone what the first uses, under a routing."""
        buffers = buffers_of(self.program)
        windows = {n for n, b in buffers.items() if b.space.data is MemorySpace.WINDOW}
        for tasks in self.signallers.values():
            if any(not self.ordered((0, a), (1, b)) for a in tasks for b in tasks):
                return False
        for a, b in programs.must_be_ordered(self.program, seed):
            put = {r.buffer for r in self.families[a[1]].write_accesses if r.peer is not None}
            if put & windows and not self.ordered((0, b), (1, a)):
                return False
        return True


def refused(check: Callable[[], None]) -> str:
    """What a check says, empty where it accepts."""
    try:
        check()
    except RefusedError as error:
        return str(error)
    return ""


def order_is_refused(program: queue.ProgramOp) -> str:
    """What is said of one launch alone."""

    def check() -> None:
        tasks = queue_tasks(program)
        check_thresholds(tasks)
        run = run_queues(tasks)
        if not run.complete:
            verify_queues(program)
            raise AssertionError("a circle of waits must be refused")
        check_order(OrderProof(run), uses_of(tasks))

    return refused(check)


def launches_are_refused(program: queue.ProgramOp) -> str:
    """What is said of a second launch."""
    tasks = queue_tasks(program)
    return refused(lambda: check_launches(OrderProof(run_queues(tasks)), uses_of(tasks)))


@pytest.mark.parametrize("seed", range(30))
def test_right_queues_are_accepted(programs: Any, machine: str, seed: int):
    program = queued(programs, machine, seed)
    assert Unrolled(program).launch_is_right(programs, seed)
    assert order_is_refused(program) == ""


def test_second_launches_are_judged_as_by_single_tasks(programs: Any, machine: str):
    verdicts: dict[tuple[bool, bool], int] = defaultdict(int)
    for seed in range(40):
        program = queued(programs, machine, seed)
        unrolled = Unrolled(program)
        wrong = not all(unrolled.launches_are_right(programs, seed + 100 * i) for i in range(4))
        verdicts[wrong, bool(launches_are_refused(program))] += 1
    assert verdicts[True, False] == 0
    assert verdicts[True, True] > 5
    assert verdicts[False, False] > 5
    # What a routing can bring together is decided without it, so some are refused that no drawn
    # routing shows to be wrong.
    assert verdicts[False, True] <= 6


@pytest.mark.parametrize("seed", range(30))
def test_tables_say_what_single_tasks_say(programs: Any, machine: str, seed: int):
    program = queued(programs, machine, seed)
    unrolled = Unrolled(program)
    tasks = queue_tasks(program)
    proof = OrderProof(run_queues(tasks))
    name = {
        (task // tasks.per_rank, f.sym_name.data, p): task
        for task in range(tasks.ranks * tasks.per_rank)
        for f, p in (tasks.family_of(task),)
    }
    draw = random.Random(seed)
    nodes = sorted(name)
    for _ in range(100):
        a, b = draw.choice(nodes), draw.choice(nodes)
        assert proof.certainly_ended(name[a], name[b], rows=True) == unrolled.ordered(
            (0, a), (0, b)
        )


MUTATIONS = ("drop wait", "other event", "drop signal", "threshold", "reverse a queue", "peer")


def mutate(program: queue.ProgramOp, kind: str, draw: random.Random) -> bool:
    """Breaks a program; False where there is nothing of the kind to break."""
    waits, signals = queue.waits_of(program), queue.signals_of(program)
    if kind == "drop wait" and waits:
        op = draw.choice(waits)
        op.detach()
        op.erase()
        return True
    if kind == "drop signal" and signals:
        # With the thresholds made to fit, so that the counts show nothing.
        op = draw.choice(signals)
        event = queue.events_of(program)[op.event_name]
        if len([s for s in signals if s.event_name == op.event_name]) != 1:
            return False
        for use in [*[w for w in waits if w.event_name == op.event_name], op, event]:
            use.detach()
            use.erase()
        return True
    if kind == "other event" and waits:
        op = draw.choice(waits)
        extents = queue.events_of(program)[op.event_name].extents
        if not extents or max(extents) == 1:
            return False
        at = draw.choice([i for i, n in enumerate(extents) if n > 1])
        index = list(op.index_exprs)
        index[at] = (index[at] + 1) % extents[at]
        op.index = ArrayAttr(IndexAttr(e) for e in index)
        return True
    if kind == "threshold":
        event = draw.choice(list(queue.events_of(program).values()))
        counts = event.thresholds.copy()
        counts[draw.randrange(len(counts))] += draw.choice([-1, 1])
        if (counts < 1).any():
            return False
        event.counts = dense_i32(counts)
        return True
    if kind == "reverse a queue":
        order = draw.choice([o for o in queue.orders_of(program).values() if o.slots.get_values()])
        slots, first = order.slot_values.copy(), order.first_slots
        core = int((first[1:] - first[:-1]).argmax())
        slots[first[core] : first[core + 1]] = slots[first[core] : first[core + 1]][::-1]
        order.slots = queue.OrderOp(order.core_kind, order.family_names, first, slots).slots
        return bool(first[core + 1] - first[core] > 1)
    remote = [s for s in signals if s.peer_expr is not None]
    if kind == "peer" and remote and program.ranks.value.data > 1:
        op = draw.choice(remote)
        assert op.peer_expr is not None
        shifted: AffineExpr = (op.peer_expr + 1) % program.ranks.value.data
        op.peer = IndexAttr(shifted)
        return True
    return False


@pytest.mark.parametrize("kind", MUTATIONS)
def test_what_some_routing_makes_wrong_is_refused(programs: Any, machine: str, kind: str):
    wrong = right = refused_right = 0
    for seed in range(40):
        program = queued(programs, machine, seed)
        if not mutate(program, kind, random.Random(seed)):
            continue
        unrolled = Unrolled(program)
        message = order_is_refused(program)
        if all(unrolled.launch_is_right(programs, seed + 100 * i) for i in range(4)):
            right += 1
            refused_right += bool(message)
            continue
        wrong += 1
        assert message, (seed, str(program))
    assert wrong > 5
    assert refused_right <= 0.3 * right + 3, (refused_right, right)


def test_reading_what_nobody_wrote_is_refused(programs: Any, machine: str):
    program = queued(programs, machine, 0)
    tasks = queue_tasks(program)
    message = refused(lambda: check_written(tasks, uses_of(tasks)))
    assert "no family before it writes" in message


def test_a_program_keeps_its_text(programs: Any, machine: str):
    program = queued(programs, machine, 3)
    before = str(program)
    order_is_refused(program)
    assert str(program) == before
