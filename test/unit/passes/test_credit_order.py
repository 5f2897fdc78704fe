"""What `verify-queues` takes for certain about credited puts holds whichever of them have rows."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.context import Context

from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.access import GroupedRows, SentRows
from hpmoe_ir.dialects.index import IntArray, evaluate_index
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.proof.order import OrderProof
from hpmoe_ir.passes.proof.run import run_queues
from hpmoe_ir.passes.proof.tasks import NONE, QueueTasks, queue_tasks

RANKS, LOCAL = 2, 2
LAYER = preset_layer("deepseek-v3-tiny").with_sizes(ranks=RANKS, experts=RANKS * LOCAL, tokens=16)


def programs(seed: int) -> list[queue.ProgramOp]:
    """Both directions of a small layer, lowered in some way."""
    draw = random.Random(seed)
    module = layer_module(LAYER)
    lowering = LowerMoePass(
        granularity=draw.choice(["part", "expert"]),
        policy=draw.choice([DepthFirst(), OperatorOrder(), Arrival()]),
        rotate=draw.choice([False, True]),
        source_groups=draw.choice([1, 2]),
        elide=draw.choice([False, True]),
    )
    for module_pass in (DeriveBackwardPass(), lowering):
        module_pass.apply(Context(), module)
    return [op for op in module.ops if isinstance(op, queue.ProgramOp)]


def empty_tasks(tasks: QueueTasks, rows: IntArray) -> set[int]:
    """The puts that have no rows; `rows` [R, E] are those from each rank to each expert."""
    found: set[int] = set()
    for family in tasks.families:
        peer = family.target_peer
        selector = next((r.rows for r in family.write_accesses if r.rows is not None), None)
        if peer is None or not isinstance(selector, GroupedRows | SentRows):
            continue
        numbers = tasks.tasks_of(family)
        for rank in range(RANKS):
            for point, task in enumerate(numbers[rank]):
                coords = [int(c[point]) for c in family.coordinates()]
                to = int(evaluate_index(peer, coords, rank))
                expert = int(evaluate_index(selector.expert, coords, rank))
                sent = isinstance(selector, SentRows)
                if not (rows[to, expert] if sent else rows[rank, to * LOCAL + expert]):
                    found.add(int(task))
    return found


def certain(tasks: QueueTasks, empty: set[int]) -> list[int]:
    """For each task the set of those that have ended before it starts, as bits, in a launch."""
    count = len(tasks.core)
    before: dict[int, int] = {}
    told: list[list[int]] = [[] for _ in range(len(tasks.thresholds))]
    """Who tells by each event, as tasks that must have ended."""
    for task, column in np.argwhere(tasks.signals != NONE):
        giver = int(tasks.givers[task, column])
        teller = giver if giver != NONE and int(task) in empty else int(task)
        told[int(tasks.signals[task, column])].append(teller)
    starts = [int(i) for i in tasks.queue_starts]
    waits: list[list[int]] = tasks.waits.tolist()
    heads = starts[:-1]
    moved = True
    while moved:
        moved = False
        for core, end in enumerate(starts[1:]):
            if heads[core] == end:
                continue
            task = int(tasks.queues[heads[core]])
            needed = [t for e in waits[task] if e != NONE for t in told[e]]
            if heads[core] > starts[core]:
                needed.append(int(tasks.queues[heads[core] - 1]))
            if not all(t in before for t in needed):
                continue
            before[task] = 0
            for t in needed:
                before[task] |= before[t] | 1 << t
            heads[core] += 1
            moved = True
    assert len(before) == count, "all tasks end"
    return [before[t] for t in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_certain_holds_for_every_routing(seed: int) -> None:
    draw = random.Random(seed)
    for program in programs(seed):
        tasks = queue_tasks(program)
        assert tasks.credits
        proof = OrderProof(run_queues(tasks))
        pairs = RANKS * RANKS * LOCAL
        drawn = [0, 2**pairs - 1, *(draw.randrange(2**pairs) for _ in range(10))]
        bits = [(n >> np.arange(pairs, dtype=np.int64)) & 1 for n in drawn]
        routings = [b.reshape(RANKS, RANKS * LOCAL) for b in bits]
        cases = [(e, certain(tasks, e)) for e in (empty_tasks(tasks, r) for r in routings)]
        proved = 0
        for after in range(len(tasks.core)):
            for before in range(len(tasks.core)):
                holds = [case[after] >> before & 1 for _, case in cases]
                with_rows = [h for h, (e, _) in zip(holds, cases, strict=True) if before not in e]
                if proof.certainly_ended(before, after, rows=False):
                    proved += 1
                    assert all(holds)
                if proof.certainly_ended(before, after, rows=True):
                    assert all(with_rows)
                pair = np.array([before]), np.array([after])
                if proof.ended(*pair, rows=False)[0]:
                    assert all(holds)
                if proof.ended(*pair, rows=True)[0]:
                    assert all(with_rows)
        assert proved > len(tasks.core)
